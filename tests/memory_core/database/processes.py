"""Other processes, as the embedded server's tests meet them: owners that can be killed, servers that must be gone."""

import json
import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy.engine import make_url

WAIT_SECONDS = 60
ROOT = Path(__file__).parents[3]


class OwnerProcess:
    """A process in which `embedded_owner` runs. `told` is what it printed."""

    def __init__(self, folder: Path, *words: str, prefix: tuple[str, ...] = (), python: str = sys.executable) -> None:
        command = [*prefix, python, "-m", "tests.memory_core.database.embedded_owner", str(folder), *words]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
        )
        self._told: dict[str, Any] | None = None

    @property
    def told(self) -> dict[str, Any]:
        if self._told is None:
            assert self.process.stdout is not None
            readable, _, _ = select.select([self.process.stdout], [], [], WAIT_SECONDS)
            assert readable, "the owner says nothing"
            line = self.process.stdout.readline()
            assert line, "the owner ended without a word"
            self._told = json.loads(line)
        return self._told

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(WAIT_SECONDS)

    def leave(self) -> int:
        """Let it end in good order; its exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(WAIT_SECONDS)


@contextmanager
def owner_process(
    folder: Path, *words: str, prefix: tuple[str, ...] = (), python: str = sys.executable
) -> Iterator[OwnerProcess]:
    owner = OwnerProcess(folder, *words, prefix=prefix, python=python)
    try:
        yield owner
    finally:
        if owner.process.poll() is None:
            owner.leave()
        assert owner.process.stdout is not None
        assert owner.process.stdin is not None
        owner.process.stdout.close()
        owner.process.stdin.close()


def environment() -> dict[str, str]:
    """Ours, with the packages of this interpreter for another one of the same version."""
    packages = [path for path in sys.path if path.endswith("site-packages")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(packages), "PYTHONDONTWRITEBYTECODE": "1"}


def postmaster_pid(data_dir: Path) -> int:
    return int((data_dir / "postgres" / "data" / "postmaster.pid").read_text().splitlines()[0])


def wait_until_over(pid: int) -> None:
    """Return once a process, ours or not, has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ended, _, _ = select.select([handle], [], [], WAIT_SECONDS)
        assert ended, f"process {pid} still runs"
    finally:
        os.close(handle)


def processes_in(folder: Path) -> list[str]:
    """Command lines of living processes that work in this folder or name it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            place = os.readlink(process / "cwd")
        except OSError:
            continue
        if str(folder) in place or (str(folder) in command and "embedded_owner" not in command):
            found.append(command)
    return found


def run_sql(url: str, statement: str) -> list[tuple[Any, ...]]:
    address = make_url(url).render_as_string(hide_password=False)
    with psycopg.connect(address, autocommit=True, connect_timeout=10) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def ordinary_user() -> tuple[str, ...] | None:
    """A prefix that makes root somebody else, if we are root and the machine has the tool."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return None
    person = pwd.getpwnam("nobody")
    return ("setpriv", f"--reuid={person.pw_uid}", f"--regid={person.pw_gid}", "--clear-groups")


def python_for(prefix: tuple[str, ...]) -> str | None:
    """An interpreter of our version that somebody else can start, with our packages, if there is one."""
    for python in (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"):
        command = [*prefix, python, "-c", "import psycopg, sqlalchemy, memory_core"]
        try:
            done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, check=False)
        except OSError:
            continue
        if done.returncode == 0:
            return python
    return None
