"""The project around the code: what is built, locked, promised in the README and run by the Makefile."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from webapp.settings import settings_table

ROOT = Path(__file__).parent.parent
SKIPPED = {".git", ".venv", ".remembrancer", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", "mutants"}
PIN = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def own_files() -> list[Path]:
    """Every file that is, or could be, committed."""
    files = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in SKIPPED and name != "__pycache__"]
        files += [Path(folder) / name for name in names]
    return files


def pins(name: str) -> dict[str, str]:
    return dict(PIN.findall((ROOT / "requirements" / name).read_text()))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_carries_everything_that_is_not_python(wheel: Path) -> None:
    """Templates, static files, migrations and policies; and nothing from outside the packages."""
    inside = set(zipfile.ZipFile(wheel).namelist())
    for top, place in (("templates", "webapp/_templates"), ("static", "webapp/_static")):
        for file in (ROOT / top).rglob("*"):
            if file.is_file():
                assert f"{place}/{file.relative_to(ROOT / top)}" in inside
    assert any(name.startswith("memory_core/database/migrations/versions/v0001_") for name in inside)
    assert "agent/policies/memory_v1.md" in inside
    tops = {name.split("/")[0] for name in inside}
    assert tops == {"memory_core", "agent", "webapp", "remembrancer-0.1.0.dist-info"}


@pytest.mark.slow
def test_the_wheel_runs_from_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    """Unpacked somewhere else, the program finds its own templates, static files and migrations."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    empty = tmp_path / "empty"
    empty.mkdir()
    check = (
        "import webapp.cli, webapp.render as r, memory_core.database.migrations as m, pathlib;"
        "assert r.TEMPLATES.joinpath('base.html').is_file(), r.TEMPLATES;"
        "assert r.STATIC.joinpath('icons.svg').is_file(), r.STATIC;"
        "print(pathlib.Path(webapp.cli.__file__).parent.parent, m.__file__, sep='\\n')"
    )
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=empty, env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == str(tmp_path / "site")
    assert str(tmp_path / "site") in done.stdout.splitlines()[1]


def test_no_file_names_a_registry() -> None:
    """Requirements come from wherever pip is set up to look; no file of ours says where that is."""
    address = re.compile(rb"https?://[^\s\"']*(pypi|npmjs|registry|/simple\b)|--(extra-)?index-url|--find-links", re.I)
    found = [str(file.relative_to(ROOT)) for file in own_files() if address.search(file.read_bytes())]
    assert found == [str(Path(__file__).relative_to(ROOT))]  # the pattern above


def test_every_exception_from_a_rule_says_why() -> None:
    """On its own line: `# noqa: S108 - why`, `# type: ignore[misc]  # why`."""
    unexplained = re.compile(r"# (?:noqa(?!: [A-Z]+\d+ - \w)|type: ignore(?!\[[\w,-]+\]  # \w))")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in own_files()
        if path.suffix == ".py"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if unexplained.search(line) and path != Path(__file__)
    ]
    assert found == []


def test_every_requirement_is_pinned_with_hashes() -> None:
    """The three sets agree with one another and with pyproject.toml, and each package has hashes."""
    everything = pins("dev.txt")
    for name in ("build.txt", "runtime.txt", "dev.txt"):
        text = (ROOT / "requirements" / name).read_text()
        assert pins(name).items() <= everything.items()
        entries = re.split(r"^(?=\S)", text, flags=re.MULTILINE)[1:]
        assert all("==" in entry and "--hash=sha256:" in entry for entry in entries)
    groups = project()
    declared = [
        *groups["project"]["dependencies"],
        *groups["project"]["optional-dependencies"]["embedded"],
        *groups["dependency-groups"]["build"],
        *groups["dependency-groups"]["dev"],
    ]
    for requirement in map(Requirement, declared):
        assert requirement.specifier.contains(everything[requirement.name.lower()]), requirement


def test_the_readme_has_the_table_of_settings() -> None:
    """As the code has it, row for row."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- settings: .*? -->\n(.*?)\n<!-- end of settings -->", readme, re.DOTALL)
    assert shown is not None
    assert shown.group(1) == settings_table()


def test_every_make_target_that_is_named_exists() -> None:
    """Those of the README and of `make help`, and the ones that scripts rely on."""
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([.a-z-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"(?:`|^    |'|: )make ([a-z]+)", (ROOT / "README.md").read_text() + makefile, re.MULTILINE))
    assert len(named) > 10
    assert {".venv", "run", "test", "check", "bench", "soak", "mutants", "lock", "clean"} <= targets
    assert named <= targets


def test_ci_runs_exactly_the_tests() -> None:
    """What a person types is what is checked."""
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    commands = [line for line in script.read_text().splitlines() if line and not line.startswith("#")]
    assert commands == ["set -euo pipefail", 'cd "$(dirname "$0")/.."', "make test"]


def test_documents_agree_with_the_package() -> None:
    """One version, one licence, and decisions of five lines each."""
    version = project()["project"]["version"]
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()
    assert "Apache License" in (ROOT / "LICENSE").read_text()[:200]
    decisions = (ROOT / "docs" / "decisions.md").read_text().split("\n## ")[1:]
    for decision in decisions:
        marks = re.findall(r"^- \*\*(.+?):\*\*", decision, re.MULTILINE)
        assert marks == ["Context", "Choice", "Refused", "Cost", "Look again"], decision
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / link).exists(), link
