# Two commands matter: `make run` and `make test`. Both need only GNU make and Python 3.11 or newer with venv.
# Everything is installed into .venv from the hashed sets in requirements/.

PYTHON  ?= python3
BROWSER ?= 1
JOBS    ?= 2
ARGS    ?=

VENV := .venv
BIN  := $(VENV)/bin
PIP  := $(BIN)/python -m pip --disable-pip-version-check --no-input -qq

# A stamp is named for what it was made from, so that a changed lock installs again and an unchanged one costs nothing.
RUNTIME_FILES := pyproject.toml requirements/build.txt requirements/runtime.txt
DEV_FILES     := $(RUNTIME_FILES) requirements/dev.txt
RUNTIME_STAMP := $(VENV)/.runtime-$(firstword $(shell cat $(RUNTIME_FILES) | cksum))
DEV_STAMP     := $(VENV)/.dev-$(firstword $(shell cat $(DEV_FILES) | cksum))

# Plug-ins are named in pyproject.toml; whatever else is installed stays out, and pytest starts three times faster.
PYTEST := PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help .venv dev-tools run test check format coverage bench soak mutants lock wheel clean

help:
	@echo 'make run       start Remembrancer on http://127.0.0.1:8000 (ARGS="--port 8001" and so on)'
	@echo 'make test      run every test (BROWSER=0 leaves the browser tests out)'
	@echo 'make check     format, lint, types, architecture and fast tests, in under a minute'
	@echo 'make format    put the code in its format'
	@echo 'make coverage  branch coverage of the pure rules, which must be complete'
	@echo 'make bench     measure against calling the model directly and against a plain relay'
	@echo 'make soak      the long runs: kills, races, many people at once'
	@echo 'make mutants   mutation tests of the pure rules'
	@echo 'make lock      resolve the requirements again (UPGRADE=--upgrade for newer versions)'
	@echo 'make wheel     build the wheel into dist/'
	@echo 'make clean     remove what the tools left; .venv and .remembrancer stay'

# ---- environments ----------------------------------------------------------------------------------------------------

.venv: $(RUNTIME_STAMP)

dev-tools: $(DEV_STAMP)

$(RUNTIME_STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'Python 3.11 or newer is needed. Name one: make run PYTHON=python3.12' >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 \
	  || { echo 'Making $(VENV)'; $(PYTHON) -m venv --clear $(VENV); }
	@echo 'Installing the requirements (once, a minute or so)'
	@$(PIP) install --require-hashes -r requirements/build.txt -r requirements/runtime.txt
	@$(PIP) install --no-deps --no-index --no-build-isolation --editable .
	@rm -f $(VENV)/.runtime-* && touch $@

$(DEV_STAMP): $(RUNTIME_STAMP)
	@echo 'Installing the test tools (once)'
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@rm -f $(VENV)/.dev-* && touch $@

# ---- run and test ----------------------------------------------------------------------------------------------------

run: $(RUNTIME_STAMP)
	@exec $(BIN)/remembrancer dev $(ARGS)

# tests.leftovers fails the run if anything the tests started is still there afterwards.
test: $(DEV_STAMP)
	@left_out=$$(sh tests/browser/provide_chromium.sh '$(BROWSER)') && \
	PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(BIN)/python -m tests.leftovers $(BIN)/python -m pytest \
	  -n $(JOBS) --check-invariants -m "not soak and not bench$$left_out" $(ARGS)

check: $(DEV_STAMP)
	@$(BIN)/ruff format --check --quiet . || { echo 'Not in its format: make format' >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(PYTEST) -n $(JOBS) -q --hypothesis-profile=quick \
	  -m "not slow and not postgres and not browser and not soak and not bench" $(ARGS)

format: $(DEV_STAMP)
	@$(BIN)/ruff check --quiet --select I --fix . && $(BIN)/ruff format .

bench: $(DEV_STAMP)
	@$(BIN)/python -m tests.bench $(ARGS)

soak: $(DEV_STAMP)
	@$(PYTEST) -m soak $(ARGS)

mutants: $(DEV_STAMP)
	@PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(BIN)/mutmut run $(ARGS) && $(BIN)/mutmut results

# The rules that import the standard library only, and the tests that hold them: no database, no other module.
PURE_MODULES := $(patsubst %,memory_core/%,document.py errors.py ledger.py operations.py owner.py screening/*)
PURE_TESTS   := tests/memory_core/screening $(patsubst %,tests/memory_core/test_%.py,\
                capacity changes document errors fields ledger matching operations owner)
comma        := ,
PURE_LIST    := $(subst $() ,$(comma),$(PURE_MODULES))

coverage: $(DEV_STAMP)
	@rm -f .coverage .coverage.*
	@PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(BIN)/coverage run -m pytest -q $(PURE_TESTS) $(ARGS)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --fail-under=100 --include='$(PURE_LIST)'

# ---- keep ------------------------------------------------------------------------------------------------------------

UPGRADE ?=
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate

# dev.txt is resolved first and binds the other two, so that the three sets never disagree about a version.
lock: $(DEV_STAMP)
	@$(COMPILE) $(UPGRADE) pyproject.toml --extra embedded --group build --group dev --output-file requirements/dev.txt
	@$(COMPILE) pyproject.toml --extra embedded --constraints requirements/dev.txt --output-file requirements/runtime.txt
	@$(COMPILE) --group build --constraints requirements/dev.txt --output-file requirements/build.txt

wheel: $(DEV_STAMP)
	@$(BIN)/python -m build --wheel --no-isolation .

clean:
	@rm -rf build dist htmlcov mutants .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache test-results
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
