"""The embedded PostgreSQL: one server for one data folder, on a unix socket, that never outlives its owner.

`dev` owns the server of its folder for as long as it runs. A short command (`migrate`, `probe`) attaches to it
meanwhile, or else owns the server for its own duration. There is one owner at a time, under a lock of the kernel.

Knows nothing of tables, engines and settings; hands out a URL.
"""

import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

import psycopg

from memory_core.database.binaries import find_binaries
from memory_core.database.start_errors import DataFolderTaken, PlatformUnsupported

if TYPE_CHECKING or sys.platform != "win32":
    from memory_core.database.data_folder import DATABASE, DataFolder, RunningServer
    from memory_core.database.postgres_user import choose_user
    from memory_core.database.postmaster import Postmaster, initialise, stop_leftover

ATTACH_SECONDS: Final = 30.0
_TURN_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.02
_CONNECT_SECONDS: Final = 5


class EmbeddedServer:
    """The server of one data folder, as owner or as guest.

    attach      False: be the owner, or fail with DataFolderTaken. True: a guest where an owner is running already.
    durable     False: for tests only; a power cut may lose everything.

    `start` and `stop` belong to the main thread: the server dies with the thread that started it. Safe to stop twice.
    """

    def __init__(
        self, data_dir: Path, pg_bin: Path | None = None, *, attach: bool = False, durable: bool = True
    ) -> None:
        if sys.platform == "win32":
            raise PlatformUnsupported
        self._folder = DataFolder(Path(data_dir))
        self._pg_bin = pg_bin
        self._attach = attach
        self._durable = durable
        self._postmaster: Postmaster | None = None

    @property
    def is_owner(self) -> bool:
        """Whether the server was started here and stops with us."""
        return self._postmaster is not None

    def start(self) -> str:
        """The URL of the database `remembrancer`, once it answers. Raises a kind of DatabaseStartFailed."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("the embedded server is started from the main thread: it dies with its thread")
        self._folder.prepare()
        guest = self._take_turn()
        if guest is not None:
            return guest
        try:
            return self._own()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server if it is ours, cleanly if it can be, within about 20 seconds; let go of the folder."""
        if self._postmaster is not None:
            self._postmaster.stop()
            self._postmaster = None
            self._folder.clear()
        self._folder.unlock()

    def __enter__(self) -> str:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _take_turn(self) -> str | None:
        """Become the owner (None), or a guest of the running one (its URL). Waits for a short command to finish."""
        started = time.monotonic()
        while not self._folder.try_lock(lasting=not self._attach):
            holder, lasting = self._folder.holder()
            waited = time.monotonic() - started
            if lasting and self._attach:
                url = self._url_of_running()
                if url is not None:
                    return url
            if waited > ATTACH_SECONDS or (not self._attach and (lasting or waited > _TURN_SECONDS)):
                raise DataFolderTaken(self._folder.given, holder)
            time.sleep(_POLL_SECONDS)
        return None

    def _url_of_running(self) -> str | None:
        server = self._folder.running()
        if server is None:
            return None
        try:
            psycopg.connect(server.url(), connect_timeout=_CONNECT_SECONDS).close()
        except psycopg.OperationalError:
            return None
        return server.url()

    def _own(self) -> str:
        folder = self._folder
        stop_leftover(folder.data)
        folder.clear()
        binaries = find_binaries(self._pg_bin, folder.data)
        user = choose_user(folder.data, binaries.folder)
        folder.hand_over(user.own)
        if not folder.data.exists():
            initialise(folder, binaries, user, durable=self._durable)
        self._postmaster = Postmaster(folder, binaries, user, durable=self._durable)
        server = self._postmaster.start()
        _ensure_database(server)
        folder.announce(server)
        return server.url()


def _ensure_database(server: RunningServer) -> None:
    """Create the database `remembrancer` on a new server; a second start finds it at once."""
    try:
        psycopg.connect(server.url(), connect_timeout=_CONNECT_SECONDS).close()
    except psycopg.OperationalError:
        with (
            psycopg.connect(server.url("postgres"), connect_timeout=_CONNECT_SECONDS, autocommit=True) as connection,
            suppress(psycopg.errors.DuplicateDatabase),
        ):
            connection.execute(f'CREATE DATABASE "{DATABASE}"')
