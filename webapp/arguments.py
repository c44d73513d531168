"""What may be typed after ``remembrancer``, and what is wrong usage. Starts nothing."""

import argparse
import ipaddress
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from memory_core.owner import Owner
from webapp.auth.api_keys import Scope

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command's name as `command`, the rest under their own names. Raises SystemExit(2) on wrong usage."""
    parser = argparse.ArgumentParser(
        prog="remembrancer",
        description="A chat agent with a bounded, honest memory. Settings come from the environment.",
    )
    parser.add_argument("--version", action="version", version=f"remembrancer {version('remembrancer')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    dev = _command(commands, "dev", "run everything on this machine: database, sign-in and model included")
    dev.add_argument("--host", type=_loopback, default="127.0.0.1", help="a loopback address (%(default)s)")
    dev.add_argument("--port", type=_port, default=8000, help="%(default)s")
    serve = _command(commands, "serve", "run for other people; needs its settings and a migrated database")
    serve.add_argument("--host", type=_address, default="127.0.0.1", help="the address to listen on (%(default)s)")
    serve.add_argument("--port", type=_port, default=8000, help="%(default)s")
    serve.add_argument("--workers", type=_workers, default=1, help="processes (%(default)s)")
    migrate = _command(commands, "migrate", "bring the database to this release, or to a revision")
    migrate.add_argument("--to", metavar="REV", default="head", help="a revision, base or head (%(default)s)")
    _command(commands, "probe", "write to the database, read it back and leave nothing")
    _memory_commands(commands)
    _key_commands(commands)
    return parser.parse_args(arguments)


def _memory_commands(commands: "Commands") -> None:
    """What an operator does with one person's memory."""
    seed = _command(
        commands, "seed", "give an agent its beginning about a person; refused if there is anything already"
    )
    _whose(seed)
    seed.set_defaults(makes_data=True)
    seed.add_argument("file", metavar="FILE", help='{"userMemoryEntries": […], "agentMemoryEntries": […]}; - reads it')
    export = _command(commands, "export", "write a person's memory to USER.md and MEMORY.md")
    _whose(export)
    export.add_argument("--force", action="store_true", help="write over files that are there")
    bring = _command(commands, "import", "read a person's memory from USER.md and MEMORY.md; create-only like seed")
    _whose(bring)
    bring.set_defaults(makes_data=True)
    bring.add_argument(
        "--replace", action="store_true", help="put it in the place of what is there; the person is told"
    )
    for parser in (export, bring):
        parser.add_argument("folder", metavar="FOLDER", nargs="?", type=Path, default=Path(), help="here, if not given")
    erase = _command(commands, "erase", "delete everything an agent has about a person, and end their sessions")
    _whose(erase)
    erase.add_argument(
        "--yes",
        action="store_true",
        help="do not ask for the name to be typed; needed where nobody can type it, as in a script",
    )


def _key_commands(commands: "Commands") -> None:
    keys = _command(commands, "keys", "make, list and revoke the keys of the HTTP API")
    verbs = keys.add_subparsers(dest="verb", required=True, metavar="create|list|revoke")
    create = _command(verbs, "create", "make a key and print it, this once")
    create.set_defaults(makes_data=True)
    create.add_argument("--name", default="", type=_text, help="what it is for")
    create.add_argument(
        "--scopes", type=_scopes, default=tuple(Scope), metavar="A,B", help=f"of {', '.join(Scope)} (all of them)"
    )
    create.add_argument("--days", type=_days, help="for how long it is valid (for ever)")
    _command(verbs, "list", "show every key and what became of it")
    _command(verbs, "revoke", "end a key and what runs with it").add_argument("key", metavar="ID", type=_text)


def _whose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--agent", required=True, metavar="A", type=_text, help="an agent's id, or `default`")
    parser.add_argument(
        "--subject", required=True, metavar="S", type=_subject, help="the person, as sign-in names them"
    )


def _command(commands: "Commands", name: str, meaning: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=meaning, description=f"{meaning[0].upper()}{meaning[1:]}.")
    parser.add_argument("--data-dir", type=Path, help="where the embedded database and local keys are kept")
    parser.set_defaults(makes_data=False)
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


def _days(text: str) -> int:
    return _number(text, "a number of days", 3650)


def _scopes(text: str) -> tuple[Scope, ...]:
    try:
        return tuple(Scope(scope.strip()) for scope in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"scopes are {', '.join(Scope)}") from None


def _text(text: str) -> str:
    """What the shell gave, if it is text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError("it is not text in UTF-8") from None
    return text


def _subject(text: str) -> str:
    try:
        return Owner("", "", text).subject
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _number(text: str, what: str, most: int) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{what} is a whole number from 1 to {most}")
    return int(text)
