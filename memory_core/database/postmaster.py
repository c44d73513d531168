"""One run of PostgreSQL's server process: making its data, starting it, waiting until it is ready, stopping it.

What the server may write into its log is fixed here: no statement, no parameter, no error of a statement. Finds no
programs, holds no lock.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from memory_core.database.binaries import Binaries
from memory_core.database.data_folder import SUPERUSER, DataFolder, RunningServer, telling_line
from memory_core.database.postgres_user import PostgresUser
from memory_core.database.start_errors import ServerDidNotStart

INITDB_SECONDS: Final = 120.0
START_SECONDS: Final = 60.0  # recovery after a crash included
FAST_STOP_SECONDS: Final = 10.0
IMMEDIATE_STOP_SECONDS: Final = 6.0
_POLL_SECONDS: Final = 0.01
_ATTEMPTS: Final = 3

_SETTINGS: Final = {
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_permissions": "0700",
    "jit": "off",
    # The log keeps starts, stops and crashes. A failed statement, its values and its text stay out at every level.
    "log_destination": "stderr",
    "logging_collector": "off",
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_statement": "none",
    "log_duration": "off",
    "log_min_duration_statement": "-1",
    "log_min_duration_sample": "-1",
    "log_transaction_sample_rate": "0",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_lock_waits": "off",
    "log_temp_files": "-1",
    "log_checkpoints": "off",
    "log_autovacuum_min_duration": "-1",
    "debug_print_parse": "off",
    "debug_print_rewritten": "off",
    "debug_print_plan": "off",
}
#: Nothing is synced to the disk; a killed server still keeps every commit.
_FOR_TESTS: Final = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}


def initialise(folder: DataFolder, binaries: Binaries, user: PostgresUser, *, durable: bool) -> None:
    """Make PostgreSQL's data, whole or not at all. Raises ServerDidNotStart; a killed call leaves only `data.new`."""
    shutil.rmtree(folder.new_data, ignore_errors=True)
    folder.new_data.mkdir(mode=0o700)
    user.own(folder.new_data)
    options = ["-A", "trust", "-U", SUPERUSER, "--locale=C.UTF-8", "-E", "UTF8", "--no-instructions"]
    command = user.command(binaries.initdb, *options, *(() if durable else ("-N",)), "-D", str(folder.new_data))
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=INITDB_SECONDS,
            check=False,
            **user.options(),
        )
    except subprocess.TimeoutExpired:
        raise ServerDidNotStart("initdb", f"not finished after {INITDB_SECONDS:.0f} seconds") from None
    if done.returncode != 0:
        raise ServerDidNotStart("initdb", telling_line(done.stdout.decode(errors="replace")))
    folder.new_data.rename(folder.data)


def stop_leftover(data: Path) -> None:
    """End a server that a dead owner left in our folder, and forget a process id that is somebody else's by now.

    Only ever called by the holder of the folder's lock, so a server here belongs to nobody.
    """
    pid = _recorded_pid(data)
    if pid is None:
        return
    for wanted, seconds in (
        (None, 1.0),
        (signal.SIGINT, FAST_STOP_SECONDS),
        (signal.SIGQUIT, IMMEDIATE_STOP_SECONDS),
        (signal.SIGKILL, IMMEDIATE_STOP_SECONDS),
    ):
        if not _is_server_of(pid, data):
            break
        if wanted is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, wanted)
        _wait(lambda: not _is_server_of(pid, data), seconds)
    with suppress(OSError):
        os.kill(pid, 0)
        # Alive, but not our server: PostgreSQL would refuse to start for it.
        (data / "postmaster.pid").unlink(missing_ok=True)


class Postmaster:
    """A running server of ours. It ends with `stop`, or with the thread that called `start`."""

    def __init__(self, folder: DataFolder, binaries: Binaries, user: PostgresUser, *, durable: bool) -> None:
        self._folder = folder
        self._user = user
        self._postgres = binaries.postgres
        self._settings = _SETTINGS if durable else _SETTINGS | _FOR_TESTS
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> RunningServer:
        """Start the server and wait until it takes connections. Raises ServerDidNotStart."""
        crashed = (self._folder.data / "postmaster.pid").exists()
        sockets = self._folder.make_socket_folder()
        self._user.own(sockets)
        # After a crash the last processes of the old server may still be letting go of their memory.
        for attempts_left in reversed(range(_ATTEMPTS if crashed else 1)):
            self._process = self._launch(sockets)
            self._folder.announce(RunningServer(self._process.pid, str(sockets)))
            if _wait(self._is_ready_or_over, START_SECONDS) and self._process.poll() is None:
                return RunningServer(self._process.pid, str(sockets))
            self.stop()
            if attempts_left:
                time.sleep(_POLL_SECONDS * 20)
        raise ServerDidNotStart("PostgreSQL", self._folder.last_words(), self._folder.log)

    def stop(self) -> None:
        """End the server: the clean way first, within its bounds."""
        if self._process is None:
            return
        for wanted, seconds in (
            (signal.SIGINT, FAST_STOP_SECONDS),
            (signal.SIGQUIT, IMMEDIATE_STOP_SECONDS),
            (signal.SIGKILL, IMMEDIATE_STOP_SECONDS),
        ):
            self._process.send_signal(wanted)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
                break
        self._process = None

    def _launch(self, sockets: Path) -> subprocess.Popen[bytes]:
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        command = self._user.command(self._postgres, "-D", str(self._folder.data), "-k", str(sockets), *settings)
        log = self._folder.open_log()
        try:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd="/", **self._user.options())
        except OSError as error:
            raise ServerDidNotStart("PostgreSQL", error.strerror or "") from None
        finally:
            os.close(log)

    def _is_ready_or_over(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            return True
        lines = _pid_file(self._folder.data)
        return len(lines) > 7 and lines[0] == str(self._process.pid) and lines[7].strip() == "ready"


def _pid_file(data: Path) -> list[str]:
    """The lines of postmaster.pid: process id first, the state ("starting", "ready", …) eighth."""
    try:
        return (data / "postmaster.pid").read_text(errors="replace").splitlines()
    except OSError:
        return []


def _recorded_pid(data: Path) -> int | None:
    lines = _pid_file(data)
    return int(lines[0]) if lines and lines[0].strip().isdigit() else None


def _is_server_of(pid: int, data: Path) -> bool:
    """Whether this process is a living server in this folder (a server works in its data folder)."""
    if Path("/proc/self").exists():
        try:
            return Path(f"/proc/{pid}/cwd").samefile(data)
        except OSError:
            return False
    told = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return str(data) in told.stdout


def _wait(is_so: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
