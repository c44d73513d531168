"""The embedded server's place on disk: what lies where, who holds it, and how others find the running server.

    <data folder>/postgres/
        lock          held (flock) by the one process that owns the server; says who it is
        server.json   written when the server is ready, gone when it stops
        server.log    the server's own log, without statements or values; the one before as server.log.1
        data/         PostgreSQL's data; made as data.new and renamed, so that a half-made one is never used
        run/          its socket, where the path is short and plain enough; otherwise a folder under the system's temp

Starts nothing and signals nobody.
"""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from memory_core.database.start_errors import DataFolderNotWritable

DATABASE: Final = "remembrancer"
SUPERUSER: Final = "postgres"
SOCKET_NAME: Final = ".s.PGSQL.5432"
#: sun_path holds 108 bytes on Linux and 104 on macOS, the final zero included.
SOCKET_PATH_MAX_BYTES: Final = 102
#: Characters that neither libpq nor PostgreSQL's list of socket folders reads as anything but themselves.
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-")
_SHORT_TEMP: Final = "/tmp"  # noqa: S108 - made with mkdtemp, for us alone


@dataclass(frozen=True)
class RunningServer:
    """What `server.json` says: the postmaster's process and where its socket is."""

    pid: int
    socket_folder: str

    def url(self, database: str = DATABASE) -> str:
        return f"postgresql://{SUPERUSER}@/{database}?host={quote(self.socket_folder, safe='')}"


class DataFolder:
    """Paths and lock of one embedded server. Holds no server."""

    def __init__(self, data_dir: Path) -> None:
        self.given = data_dir
        self.root = data_dir.absolute() / "postgres"
        self.data = self.root / "data"
        self.new_data = self.root / "data.new"
        self.log = self.root / "server.log"
        self._lock_file = self.root / "lock"
        self._state = self.root / "server.json"
        self._lock: int | None = None

    def prepare(self) -> None:
        """Make the folder, for its owner alone. Raises DataFolderNotWritable."""
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryFile(dir=self.root):
                pass
        except OSError as error:
            raise DataFolderNotWritable(self.given, _reason(error)) from None

    def is_made(self) -> bool:
        """Whether there are data, or a server that is making them. Makes nothing; what may not be looked at counts."""
        try:
            if self.data.exists():
                return True
            lock = os.open(self._lock_file, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(lock)
        return False

    def try_lock(self, *, lasting: bool) -> bool:
        """Take the lock if nobody has it. The kernel gives it back when this process ends, however it ends."""
        try:
            lock = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DataFolderNotWritable(self.given, _reason(error)) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            if isinstance(error, BlockingIOError):
                return False
            raise DataFolderNotWritable(self.given, f"it cannot be locked ({_reason(error)})") from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()} {'lasting' if lasting else 'passing'}\n".encode(), 0)
        self._lock = lock
        return True

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def holder(self) -> tuple[int | None, bool]:
        """Who holds the lock by its own word: its process id, and whether it means to keep it."""
        words = _read(self._lock_file).split()
        if len(words) != 2 or not words[0].isdigit():
            return None, False
        return int(words[0]), words[1] == "lasting"

    def hand_over(self, own: Callable[[Path], None]) -> None:
        """Let the user who runs the server own the small files too, so that they can start it without root later."""
        for path in (self._lock_file, self._state, self.log):
            if path.exists():
                own(path)

    def running(self) -> RunningServer | None:
        """The server that said it was ready; it may have died since."""
        try:
            state = json.loads(_read(self._state))
            return RunningServer(int(state["pid"]), str(state["socket_folder"]))
        except (ValueError, KeyError, TypeError):
            return None

    def announce(self, server: RunningServer) -> None:
        """Tell others where the server is: the socket folder as soon as it is made, so that it is never left behind."""
        draft = self._state.with_suffix(".new")
        draft.write_text(json.dumps({"pid": server.pid, "socket_folder": server.socket_folder}))
        draft.replace(self._state)

    def clear(self) -> None:
        """Remove what an earlier server left: its announcement and its socket folder."""
        earlier = self.running()
        self._state.unlink(missing_ok=True)
        if earlier is not None and Path(earlier.socket_folder).parent != self.root:
            shutil.rmtree(earlier.socket_folder, ignore_errors=True)
        shutil.rmtree(self.root / "run", ignore_errors=True)

    def make_socket_folder(self) -> Path:
        """A folder for the socket, for its owner alone. Raises DataFolderNotWritable if every place is too deep."""
        inside = self.root / "run"
        if _fits(inside):
            inside.mkdir(mode=0o700, exist_ok=True)
            return inside
        for parent in (tempfile.gettempdir(), _SHORT_TEMP):
            with suppress(OSError):
                outside = Path(tempfile.mkdtemp(prefix="remembrancer-", dir=parent))
                if _fits(outside):
                    return outside
                outside.rmdir()
        raise DataFolderNotWritable(self.given, "no place is short enough for a socket")

    def open_log(self) -> int:
        """A fresh log for one run of the server; the one before is kept beside it."""
        with suppress(FileNotFoundError):
            self.log.replace(self.log.with_suffix(".log.1"))
        return os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def last_words(self) -> str:
        """The line of the log that says best why the server stopped."""
        return telling_line(_read(self.log))


def telling_line(text: str) -> str:
    """The last line that names an error, or else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    fatal = [line for line in lines if any(mark in line for mark in ("FATAL:", "PANIC:", "error:", "invalid"))]
    return (fatal or lines or [""])[-1]


def _reason(error: OSError) -> str:
    return (error.strerror or "no access").lower()


def _fits(folder: Path) -> bool:
    path = str(folder / SOCKET_NAME)
    return len(path) <= SOCKET_PATH_MAX_BYTES and _PLAIN.issuperset(path)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
