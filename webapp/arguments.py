"""What may be typed after ``remembrancer``, and what is wrong usage. Starts nothing."""

import argparse
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command's name as `command`, the rest under their own names. Raises SystemExit(2) on wrong usage."""
    parser = argparse.ArgumentParser(
        prog="remembrancer",
        description="A chat agent with a bounded, honest memory. Settings come from the environment.",
    )
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
    return parser.parse_args(arguments)


def _command(commands: "Commands", name: str, meaning: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=meaning, description=f"{meaning[0].upper()}{meaning[1:]}.")
    parser.add_argument("--data-dir", type=Path, help="where the embedded database and local keys are kept")
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
