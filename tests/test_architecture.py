"""The import law, read from the code itself; every rule is shown to bite on a made-up module.

layers      memory_core ← agent ← webapp, never back; nothing imports the tests
pure        the rules of memory_core import the standard library and each other, nothing else
homes       a library with a home is imported there and nowhere else
settings    one module reads the environment
imports     stand at the top of their module, never inside a function
clients     engines, clients and pools are built by the composition root, never while a module is imported
middleware  no BaseHTTPMiddleware: under it a disconnect is not seen
"""

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("memory_core", "agent", "webapp")  # each may import those before it
PURE = ("document", "errors", "ledger", "operations", "owner", "screening")  # of memory_core
HOMES = {  # library → where it may be imported
    "openai": "agent/models/",
    "authlib": "webapp/auth/",
    "joserfc": "webapp/auth/",
    "starlette": "webapp/",
    "sse_starlette": "webapp/",
    "uvicorn": "webapp/",
    "jinja2": "webapp/",
    "alembic": "memory_core/database/",
}
SETTINGS = "webapp/settings.py"
ENVIRONMENT = ("environ", "environb", "getenv", "getenvb", "putenv", "unsetenv")
BUILT_BY_ROOT = {
    *("create_engine", "make_engine", "sessionmaker", "scoped_session", "ConnectionPool", "AsyncConnectionPool"),
    *("OpenAI", "AsyncOpenAI", "DefaultAioHttpClient", "DefaultAsyncHttpxClient", "OAuth", "AsyncOAuth2Client"),
    *("Client", "AsyncClient", "ClientSession", "Starlette", "Jinja2Templates", "ThreadPoolExecutor"),
}


@dataclass(frozen=True)
class Module:
    """One file of the program: its path from the root, with slashes, and its syntax tree."""

    path: str
    tree: ast.Module

    @property
    def package(self) -> str:
        """The top-level package it belongs to."""
        return self.path.partition("/")[0]

    @property
    def imports(self) -> Iterator[str]:
        """The absolute dotted name of everything it imports, wherever the import stands."""
        here = self.path.split("/")[:-1]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = here[: len(here) - node.level + 1] if node.level else []
                origin = ".".join([*base, *(node.module or "").split(".")]).strip(".")
                yield from (f"{origin}.{alias.name}" for alias in node.names)


def layers(module: Module) -> Iterator[str]:
    """Layers import downwards only."""
    allowed = LAYERS[: LAYERS.index(module.package) + 1]
    for name in module.imports:
        package = name.partition(".")[0]
        if package in (*LAYERS, "tests") and package not in allowed:
            yield f"{module.package} imports {name}"


def pure(module: Module) -> Iterator[str]:
    """The rules know the standard library and each other."""
    if module.path.startswith(tuple(f"memory_core/{name}{end}" for name in PURE for end in (".py", "/"))):
        for name in module.imports:
            package, _, rest = name.partition(".")
            if package not in sys.stdlib_module_names and not (package == "memory_core" and rest.split(".")[0] in PURE):
                yield f"a pure module imports {name}"


def homes(module: Module) -> Iterator[str]:
    """A library with a home stays there."""
    for name in module.imports:
        home = HOMES.get(name.partition(".")[0])
        if home is not None and not module.path.startswith(home):
            yield f"{name} is imported outside {home}"


def settings(module: Module) -> Iterator[str]:
    """Only the settings read the environment."""
    if module.path != SETTINGS:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in {f"os.{name}" for name in ENVIRONMENT}:
                yield f"{ast.unparse(node)} is used outside {SETTINGS}"
        for name in module.imports:
            if name in {f"os.{name}" for name in ENVIRONMENT}:
                yield f"{name} is imported outside {SETTINGS}"


def imports(module: Module) -> Iterator[str]:
    """Imports stand at the top."""
    functions = (node for node in ast.walk(module.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    for function in functions:
        for node in ast.walk(function):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield f"{function.name} imports inside itself: {ast.unparse(node)}"


def clients(module: Module) -> Iterator[str]:
    """Importing a module builds no engine and no client."""
    for node in _run_on_import(module.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in BUILT_BY_ROOT:
            yield f"{ast.unparse(node.func)} is built while the module is imported"


def middleware(module: Module) -> Iterator[str]:
    """Pure ASGI middleware only."""
    if any(name.endswith(".BaseHTTPMiddleware") for name in module.imports):
        yield "BaseHTTPMiddleware is imported"


RULES: Mapping[str, Callable[[Module], Iterator[str]]] = {
    rule.__name__: rule for rule in (layers, pure, homes, settings, imports, clients, middleware)
}


def _run_on_import(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when a module is imported: everything but the bodies of functions; their defaults do run."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            for part in (*child.decorator_list, child.args):
                yield from (part, *_run_on_import(part))
        elif not isinstance(child, ast.Lambda):
            yield child
            yield from _run_on_import(child)


def broken_rules(module: Module) -> list[str]:
    """Every breach of the law in one module, each with its rule."""
    return [f"{name}: {breach}" for name, rule in RULES.items() for breach in rule(module)]


MODULES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_keeps_the_law(path: Path) -> None:
    """No module of the program breaks a rule."""
    module = Module(path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8")))
    assert broken_rules(module) == []


def test_the_law_knows_every_package_of_the_repository() -> None:
    """A new top-level package has to be given its place among the layers."""
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages <= {*LAYERS, "tests"}
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == packages - {"tests"}


def test_the_pure_modules_are_there() -> None:
    """The names that the rule for pure modules goes by are names of real modules."""
    assert {path.stem for path in (ROOT / "memory_core").iterdir()} >= set(PURE)


@pytest.mark.parametrize(
    ("rule", "path", "source"),
    [
        ("layers", "memory_core/store.py", "import agent.turn"),
        ("layers", "memory_core/store.py", "from webapp import settings"),
        ("layers", "agent/turn.py", "from webapp.settings import Settings"),
        ("layers", "agent/turn.py", "def turn():\n    import webapp"),
        ("layers", "webapp/app.py", "from tests import fakes"),
        ("pure", "memory_core/document.py", "import sqlalchemy"),
        ("pure", "memory_core/ledger.py", "from memory_core.database import engine"),
        ("pure", "memory_core/ledger.py", "from memory_core import store"),
        ("pure", "memory_core/ledger.py", "from . import store"),
        ("pure", "memory_core/screening/structure.py", "from ..store import read_snapshot"),
        ("pure", "memory_core/screening/secrets.py", "import regex"),
        ("homes", "agent/turn.py", "import openai"),
        ("homes", "agent/tools/memory_update.py", "from openai.types import chat"),
        ("homes", "webapp/app.py", "from openai import AsyncOpenAI"),
        ("homes", "webapp/routes/chats.py", "from authlib.integrations import starlette_client"),
        ("homes", "agent/turn.py", "from starlette.requests import Request"),
        ("homes", "memory_core/store.py", "import alembic.command"),
        ("settings", "webapp/app.py", "import os\nkey = os.environ['KEY']"),
        ("settings", "agent/turn.py", "import os\ndef run():\n    return os.getenv('KEY')"),
        ("settings", "memory_core/database/engine.py", "from os import environ"),
        ("imports", "agent/turn.py", "def run():\n    import json"),
        (
            "imports",
            "agent/turn.py",
            "class Turn:\n    async def run(self):\n        if self:\n            from json import loads",
        ),
        ("clients", "webapp/app.py", "engine = create_engine('postgresql://')"),
        ("clients", "webapp/app.py", "class App:\n    client: object = httpx.AsyncClient()"),
        ("clients", "agent/models/chat.py", "def open(client=AsyncOpenAI()): ..."),
        ("clients", "agent/models/chat.py", "try:\n    client = openai.OpenAI()\nexcept ValueError: ..."),
        ("middleware", "webapp/headers.py", "from starlette.middleware.base import BaseHTTPMiddleware"),
    ],
)
def test_each_rule_bites(rule: str, path: str, source: str) -> None:
    """A made-up module that breaks one rule is found by that rule, and by no other than those it breaks."""
    assert list(RULES[rule](Module(path, ast.parse(source))))


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (
            "memory_core/ledger.py",
            "from __future__ import annotations\nimport json\nfrom memory_core.errors import OperationRefused",
        ),
        (
            "memory_core/screening/structure.py",
            "from . import unicode_data\nfrom ..errors import RefusalCode\nimport memory_core.document",
        ),
        ("memory_core/documents_of_others.py", "import sqlalchemy"),
        ("memory_core/store.py", "import sqlalchemy\nfrom memory_core.document import Snapshot"),
        ("agent/models/chat_completions.py", "import openai\nfrom memory_core import document"),
        ("webapp/auth/oidc.py", "import authlib\nimport agent"),
        ("webapp/settings.py", "import os\nfrom os import environ\nkey = os.environ['KEY']"),
        ("webapp/app.py", "import os\ndef build():\n    return create_engine(''), os.path.join('a'), os.getpid()"),
        ("webapp/app.py", "make = lambda: AsyncClient()\nif True:\n    import json"),
        ("webapp/app.py", "openai_is_not = 'import openai'\nenviron = {}\nenviron['a'] = 1"),
    ],
)
def test_what_keeps_the_law_passes(path: str, source: str) -> None:
    """Near misses of every rule are left alone."""
    assert broken_rules(Module(path, ast.parse(source))) == []
