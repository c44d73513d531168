"""The command line: ``remembrancer dev | serve | migrate | probe``.

Exit status 0: done; 1: failed, with one clear line on standard error; 2: wrong usage. Owns the order in which the parts
of a process start and stop; what they do is theirs.
"""

import argparse
import ipaddress
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from agent import telemetry
from memory_core.database.embedded import EmbeddedServer
from memory_core.database.engine import make_engine
from memory_core.database.migrations import MigrationRefused, current_revision, is_ready, migrate
from memory_core.database.probe import ProbeFailed, probe
from memory_core.errors import DatabaseStartFailed, StorageFailed
from webapp.app import create_app
from webapp.errors import OrganizationMoved
from webapp.server import CannotListen, listen, serve_app, serve_processes
from webapp.setting_values import origin_of
from webapp.settings import Command, Settings, SettingsError, load_settings


class CommandFailed(Exception):
    """The command could not do its work; `str()` is the line that says why."""


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
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], None] = options.run
    try:
        with _signals(signal.default_int_handler):  # both kinds of stop unwind what was started
            run(options)
    except KeyboardInterrupt:
        return 0
    except Exception as error:  # noqa: BLE001 - the edge of the process: one line, and no traceback
        _explain(error)
        return 1
    return 0


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
    print(f"remembrancer: {words}", file=sys.stderr)


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

    make_app = partial(_served_app, settings, address)
    with listen(options.host, options.port) as listener:
        if options.workers == 1:
            serve_app(make_app(), listener, on_ready=greet)
        elif not serve_processes(make_app, listener, options.workers, explain=_explain, on_ready=greet):
            sys.exit(1)


def _migrate(options: argparse.Namespace) -> None:
    settings = load_settings(None, Command.MIGRATE, data_dir=options.data_dir)
    with _database(settings, attach=True) as database:
        revision = migrate(database.direct_url, options.to)
    print(f"The database is at revision {revision}." if revision else "The database holds nothing of Remembrancer.")


def _probe(options: argparse.Namespace) -> None:
    settings = load_settings(None, Command.PROBE, data_dir=options.data_dir)
    with _database(settings, attach=True) as database:
        _require_schema(database.url, database.direct_url)
        engine = make_engine(database.url, 1)
        try:
            probe(engine)
        finally:
            engine.dispose()
    print("The database works: written, read, changed and rolled back. Nothing was left behind.")


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
    if settings.uses_rehearsal_model:
        lines.append("The rehearsal model answers. For a real one set OPENAI_API_KEY or OPENAI_BASE_URL.")
    if settings.uses_embedded_database:
        lines.append(f"Everything is kept in {settings.data_dir}.")
    return "\n".join([*lines, "Ctrl-C stops it."])


# Reading the command line.


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="remembrancer",
        description="A chat agent with a bounded, honest memory. Settings come from the environment.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    dev = _command(commands, "dev", _dev, "run everything on this machine: database, sign-in and model included")
    dev.add_argument("--host", type=_loopback, default="127.0.0.1", help="a loopback address (%(default)s)")
    dev.add_argument("--port", type=_port, default=8000, help="%(default)s")
    serve = _command(commands, "serve", _serve, "run for other people; needs its settings and a migrated database")
    serve.add_argument("--host", type=_address, default="127.0.0.1", help="the address to listen on (%(default)s)")
    serve.add_argument("--port", type=_port, default=8000, help="%(default)s")
    serve.add_argument("--workers", type=_workers, default=1, help="processes (%(default)s)")
    move = _command(commands, "migrate", _migrate, "bring the database to this release, or to a revision")
    move.add_argument("--to", metavar="REV", default="head", help="a revision, base or head (%(default)s)")
    _command(commands, "probe", _probe, "write to the database, read it back and leave nothing")
    return parser


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    run: Callable[[argparse.Namespace], None],
    meaning: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=meaning, description=f"{meaning[0].upper()}{meaning[1:]}.")
    parser.add_argument("--data-dir", type=Path, help="where the embedded database and local keys are kept")
    parser.set_defaults(run=run)
    return parser


def _address(text: str) -> str:
    """An IP address; a name only if it is `localhost`."""
    text = "127.0.0.1" if text == "localhost" else text.strip("[]")
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not an IP address") from None


def _loopback(text: str) -> str:
    address = _address(text)
    if not ipaddress.ip_address(address).is_loopback:
        raise argparse.ArgumentTypeError("dev believes every sign-in, so it listens on this machine only: use serve")
    return address


def _port(text: str) -> int:
    return _number(text, "a port", 65535)


def _workers(text: str) -> int:
    return _number(text, "a number of processes", 64)


def _number(text: str, what: str, most: int) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{what} is a whole number from 1 to {most}")
    return int(text)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


if __name__ == "__main__":
    sys.exit(main())
