"""The command line in a process of its own, as a person starts it."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx2

from webapp.settings import SETTINGS

PATIENCE_SECONDS = 60


class Running:
    """A command that serves on a port of its own. `lines` is what it has printed so far."""

    def __init__(self, process: "subprocess.Popen[str]", port: int) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self.lines: list[str] = []

    def read_until(self, last: str) -> None:
        """Read what it prints, up to a line that begins with `last`."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if line.startswith(last):
                return
        raise AssertionError(f"it ended with {self.process.wait(PATIENCE_SECONDS)}: {self.lines}")

    def rest(self) -> str:
        """What it still prints, up to the end of the last process that could."""
        assert self.process.stdout is not None
        return self.process.stdout.read()

    def get(self, path: str) -> httpx2.Response:
        return httpx2.get(self.url + path, trust_env=False, timeout=PATIENCE_SECONDS)

    def stop(self, kind: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop; its exit status."""
        self.process.send_signal(kind)
        return self.process.wait(PATIENCE_SECONDS)


def clean_environ(**more: str) -> dict[str, str]:
    """This process's environment without any setting, and `more`."""
    names = {row.name for row in SETTINGS} | {f"{row.name}_FILE" for row in SETTINGS}
    return {name: value for name, value in os.environ.items() if name not in names} | more


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def started(command: str, *arguments: str, cwd: Path, environ: Mapping[str, str], port: int) -> Iterator[Running]:
    """Start `remembrancer COMMAND --port PORT`; whatever becomes of it, it is gone afterwards."""
    line = [sys.executable, "-m", "webapp.cli", command, "--port", str(port), *arguments]
    with subprocess.Popen(
        line, cwd=cwd, env=dict(environ), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield Running(process, port)
        finally:
            process.kill()


def finished(*arguments: str, cwd: Path, environ: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "webapp.cli", *arguments],
        cwd=cwd,
        env=dict(environ),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
