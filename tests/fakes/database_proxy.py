"""A unix-socket proxy in front of PostgreSQL that can go silent or hang up at a chosen moment.

    with DatabaseProxy(url, folder) as proxy:
        engine = make_engine(proxy.url)
        proxy.freeze()                  # from now on nothing passes, either way; connections stay open
        proxy.freeze_newcomers()        # only connections that are yet to come, as a cancel is
        proxy.hang_up_after(b"COMMIT")  # the next message that holds these bytes is passed on; its answer never comes

One thread a direction; everything ends with the block.
"""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from sqlalchemy.engine import make_url

SOCKET_NAME = ".s.PGSQL.5432"
_CHUNK_BYTES = 65536


class DatabaseProxy:
    """Stands between a client and the server whose address it was given."""

    def __init__(self, url: str, folder: Path) -> None:
        address = make_url(url)
        host = address.query["host"]
        self._server = str(Path(host if isinstance(host, str) else host[0]) / SOCKET_NAME)
        self.url = f"postgresql://postgres@/{address.database}?host={quote(str(folder), safe='')}"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / SOCKET_NAME))
        self._listener.listen()
        self._flowing = threading.Event()
        self._flowing.set()
        self._takes_newcomers = True
        self._closing = False
        self._last_words: bytes | None = None
        self._keeps_answer = False
        self.hung_up = threading.Event()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []

    def freeze(self) -> None:
        """Swallow everything, in silence, until `thaw`."""
        self._flowing.clear()

    def freeze_newcomers(self) -> None:
        """Swallow what new connections say; those that stand go on. A cancel comes as a new connection."""
        self._takes_newcomers = False

    def take_newcomers(self) -> None:
        """Connect what comes from now on; what was swallowed stays so."""
        self._takes_newcomers = True

    def thaw(self) -> None:
        """Let what was held back pass."""
        self._flowing.set()

    def hang_up_after(self, words: bytes) -> None:
        """Pass the next message holding `words` to the server, wait for its answer, and keep that from the client."""
        self._last_words = words

    def __enter__(self) -> "DatabaseProxy":
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closing = True
        self._flowing.set()
        _close(self._listener)
        for pair in self._pairs:
            for end in pair:
                _close(end)
        for thread in self._threads:
            thread.join(5)

    def _start(self, run: Callable[..., None], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            if not self._takes_newcomers:
                self._pairs.append((client, server))
                continue
            server.connect(self._server)
            self._pairs.append((client, server))
            self._start(self._questions, client, server)
            self._start(self._answers, server, client)

    def _questions(self, client: socket.socket, server: socket.socket) -> None:
        while data := _receive(client):
            self._flowing.wait()
            if self._last_words is not None and self._last_words in data:
                self._last_words, self._keeps_answer = None, True
            _send(server, data)
        _close(server)

    def _answers(self, server: socket.socket, client: socket.socket) -> None:
        while data := _receive(server):
            self._flowing.wait()
            if self._keeps_answer:
                self._keeps_answer = False
                self.hung_up.set()
                break
            _send(client, data)
        _close(client)


def _receive(end: socket.socket) -> bytes:
    try:
        return end.recv(_CHUNK_BYTES)
    except OSError:
        return b""


def _send(end: socket.socket, data: bytes) -> None:
    with suppress(OSError):
        end.sendall(data)


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
