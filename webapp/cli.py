"""The command line: ``remembrancer dev | serve | migrate | probe``, and what operators do with it (``commands.py``).

Exit status 0: done; 1: failed, with one clear line on standard error; 2: wrong usage. Owns the order in which the parts
of a process start and stop; what they do is theirs.
"""

import argparse
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from starlette.applications import Starlette

try:
    from agent import telemetry
except OSError:  # the numbers open their files when they are imported, before anything else could say so
    sys.exit("remembrancer: PROMETHEUS_MULTIPROC_DIR must name a folder that is there and can be written, or be unset")
from memory_core.database.embedded import EmbeddedServer
from memory_core.database.engine import make_engine
from memory_core.database.migrations import MigrationRefused, current_revision, is_ready, migrate
from memory_core.database.probe import ProbeFailed, probe
from memory_core.database.transaction import transaction
from memory_core.errors import DatabaseStartFailed, StorageFailed
from webapp.app import create_app
from webapp.arguments import parse_arguments
from webapp.auth.operators import SUBJECT
from webapp.auth.organization import ensure_organization
from webapp.commands import COMMANDS as OPERATOR_COMMANDS
from webapp.commands import CommandFailed, Desk
from webapp.errors import OrganizationMoved
from webapp.server import CannotListen, listen, serve_app, serve_processes
from webapp.setting_values import origin_of, shown_url
from webapp.settings import Command, Settings, SettingsError, load_settings, share_metrics

if sys.platform != "win32":
    from memory_core.database.data_folder import DataFolder

_EXPECTED = (
    CommandFailed,
    CannotListen,
    SettingsError,
    DatabaseStartFailed,
    MigrationRefused,
    OrganizationMoved,
    ProbeFailed,
    StorageFailed,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status. Raises SystemExit(2) on wrong usage."""
    options = parse_arguments(arguments)
    try:
        with _signals(signal.default_int_handler):  # both kinds of stop unwind what was started
            _COMMANDS[options.command](options)
    except KeyboardInterrupt:
        return 0 if options.command in ("dev", "serve") else _told("stopped before it was done")
    except Exception as error:  # noqa: BLE001 - the edge of the process: one line, and no traceback
        _explain(error)
        return 1
    return 0


def _told(words: str) -> int:
    """One line that moves no cursor, whatever names it repeats."""
    line = "".join(char if char.isprintable() or char == "\n" else "?" for char in words)
    print(f"remembrancer: {line}", file=sys.stderr)
    return 1


def _explain(error: Exception) -> None:
    """One line on standard error. What nobody foresaw is told by its kind and place; its words may be anybody's."""
    if isinstance(error, StorageFailed):
        detail = f" (SQLSTATE {error.sqlstate})" if error.sqlstate else ""
        words = f"the database does not answer as it should{detail}: check REMEMBRANCER_DATABASE_URL, and that it runs"
    elif isinstance(error, _EXPECTED):
        words = str(error)
    else:
        place = traceback.extract_tb(error.__traceback__)[-1]
        words = f"a fault in the program: {type(error).__name__} in {Path(place.filename).name}, line {place.lineno}"
    _told(words)


# The commands.


def _dev(options: argparse.Namespace) -> None:
    settings = load_settings(
        None, Command.DEV, data_dir=options.data_dir, host=_in_url(options.host), port=options.port
    )
    telemetry.set_up(settings.log_format, settings.log_level)
    address = origin_of(f"http://{_in_url(options.host)}:{options.port}")
    with listen(options.host, options.port) as listener, _database(settings) as database:
        migrate(database.direct_url)
        app = create_app(settings, database_url=database.url, direct_url=database.direct_url, internal_url=address)
        serve_app(app, listener, on_ready=lambda: print(_greeting(settings, address), flush=True))


def _serve(options: argparse.Namespace) -> None:
    settings = load_settings(None, Command.SERVE, data_dir=options.data_dir)
    telemetry.set_up(settings.log_format, settings.log_level)
    _require_schema(settings.database_url, settings.direct_database_url)
    address = origin_of(f"http://{_in_url(options.host)}:{options.port}")

    def greet() -> None:
        print(_greeting(settings, address), flush=True)

    with listen(options.host, options.port) as listener, TemporaryDirectory(prefix="remembrancer-metrics-") as folder:
        if options.workers == 1:
            serve_app(_served_app(settings, address), listener, on_ready=greet)
            return
        share_metrics(Path(folder))
        make_app = partial(_served_app, replace(settings, shares_metrics=True), address)
        if not serve_processes(make_app, listener, options.workers, explain=_explain, on_ready=greet):
            sys.exit(1)


def _migrate(options: argparse.Namespace) -> None:
    settings = load_settings(None, Command.MIGRATE, data_dir=options.data_dir)
    with _database(settings, attach=True) as database:
        revision = migrate(database.direct_url, options.to)
    print(f"The database is at revision {revision}." if revision else "The database holds nothing of Remembrancer.")


def _probe(options: argparse.Namespace) -> None:
    settings = load_settings(None, Command.PROBE, data_dir=options.data_dir)
    _require_data(settings)
    with _database(settings, attach=True) as database:
        _require_schema(database.url, database.direct_url)
        engine = make_engine(database.url, 1)
        try:
            probe(engine)
        finally:
            engine.dispose()
    print("The database works: written, read, changed and rolled back. Nothing was left behind.")


def _operate(options: argparse.Namespace) -> None:
    """A command of an operator, on the configured database or on the embedded one, which may be running."""
    settings = load_settings(None, Command(options.command), data_dir=options.data_dir)
    if not options.makes_data:
        _require_data(settings)
    elif not _has_data(settings):
        print(f"A new data folder is made at {settings.data_dir}.", file=sys.stderr)
    with _database(settings, attach=True) as database:
        if settings.uses_embedded_database:
            migrate(database.direct_url)
        else:
            _require_schema(database.url, database.direct_url)
        engine = make_engine(database.url, 1)
        try:
            organization = transaction(
                engine, lambda unit: ensure_organization(unit.connection, settings.organization, None)
            )
            OPERATOR_COMMANDS[options.command](Desk(engine, organization, settings.undo_hours), options)
        finally:
            engine.dispose()


# What they share.


@dataclass(frozen=True)
class _Database:
    url: str
    direct_url: str


@contextmanager
def _database(settings: Settings, *, attach: bool = False) -> Iterator[_Database]:
    """The configured database, or the embedded one for as long as the block lasts."""
    if not settings.uses_embedded_database:
        yield _Database(settings.database_url, settings.direct_database_url)
        return
    server = EmbeddedServer(settings.data_dir, settings.pg_bin, attach=attach)
    try:
        url = server.start()
        yield _Database(url, url)
    finally:
        with _signals(signal.SIG_IGN):  # the way out is bounded, and is not cut short
            server.stop()


@contextmanager
def _signals(handler: Any) -> Iterator[None]:
    """Both signals that ask to stop go to `handler` inside the block, and where they went before afterwards."""
    before = {kind: signal.signal(kind, handler) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for kind, earlier in before.items():
            signal.signal(kind, earlier)


def _served_app(settings: Settings, address: str) -> Starlette:
    """Also the first thing a worker process does, so it sets up its own log."""
    telemetry.set_up(settings.log_format, settings.log_level)
    return create_app(
        settings,
        database_url=settings.database_url,
        direct_url=settings.direct_database_url,
        internal_url=address,
    )


def _has_data(settings: Settings) -> bool:
    return sys.platform == "win32" or not settings.uses_embedded_database or DataFolder(settings.data_dir).is_made()


def _require_data(settings: Settings) -> None:
    """Raises CommandFailed where there is no embedded database yet: what only reads or removes does not make one."""
    if not _has_data(settings):
        raise CommandFailed(
            f"there is no data folder at {settings.data_dir}. "
            "Run it where `remembrancer dev` runs, or name it with --data-dir."
        )


def _require_schema(url: str, direct_url: str) -> None:
    """Raises CommandFailed if the schema is not one this release works with, StorageFailed if nobody answers."""
    revision = current_revision(direct_url)
    engine = make_engine(url, 1)
    try:
        if not is_ready(engine):
            found = f"is at revision {revision}" if revision else "has no schema yet"
            raise CommandFailed(f"the database {found}. Run: remembrancer migrate")
    finally:
        engine.dispose()


def _greeting(settings: Settings, address: str) -> str:
    lines = [f"Remembrancer is ready: {settings.public_url}"]
    if settings.public_url != address:
        lines.append(f"Listening on {address}.")
    if settings.uses_local_provider:
        lines.append("Sign in as ada, or as anybody else: the local sign-in page believes every name.")
        operators = [rule.value for rule in settings.operators if rule.claim == SUBJECT]
        if operators:
            lines[-1] += f" The operators' pages open for {', '.join(operators)}."
    if settings.uses_rehearsal_model:
        lines.append("The rehearsal model answers. For a real one set OPENAI_API_KEY or OPENAI_BASE_URL.")
    else:
        where = shown_url(settings.openai_base_url) if settings.openai_base_url else "OpenAI"
        lines.append(f"{settings.model} at {where} answers.")
    if settings.uses_embedded_database:
        lines.append(f"Everything is kept in {settings.data_dir}.")
    return "\n".join([*lines, "Ctrl-C stops it."])


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


_COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "dev": _dev,
    "serve": _serve,
    "migrate": _migrate,
    "probe": _probe,
    **dict.fromkeys(OPERATOR_COMMANDS, _operate),
}


if __name__ == "__main__":
    sys.exit(main())
