"""A line to PostgreSQL that breaks: in any statement, and more often in a COMMIT.

    with FlakyLine(url, folder, chance) as line:
        ... line.url ...
        line.is_flaky = True

A message can be lost before the server has heard it; its answer can be lost; or the line breaks while the server is
still at it, so that what becomes of the message is decided after its sender was told that it is alone.
"""

import random
import socket
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from sqlalchemy.engine import make_url

SOCKET_NAME = ".s.PGSQL.5432"
_CHUNK_BYTES = 65536


class Break(StrEnum):
    """What becomes of a message."""

    UNHEARD = "lost before it was heard"
    UNANSWERED = "heard, its answer lost"
    MEANWHILE = "cut while it was worked on"


class FlakyLine:
    """See the module's docstring. `breaks` counts what was broken, and where. One thread a direction."""

    def __init__(
        self, url: str, folder: Path, chance: random.Random, *, at_commit: float = 0.2, elsewhere: float = 0.01
    ) -> None:
        address = make_url(url)
        host = address.query["host"]
        self._server = str(Path(host if isinstance(host, str) else host[0]) / SOCKET_NAME)
        self.url = f"postgresql://postgres@/{address.database}?host={quote(str(folder), safe='')}"
        self.is_flaky = False
        self.breaks: Counter[str] = Counter()
        self._chance = chance
        self._odds = {True: at_commit, False: elsewhere}
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / SOCKET_NAME))
        self._listener.listen(64)
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "FlakyLine":
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _close(self._listener)
        for end in self._ends:
            _close(end)
        for thread in self._threads:
            thread.join(5)

    def cut_everything(self) -> None:
        """Break every connection there is, the idle ones too."""
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            self._ends += (client, server)
            broken = threading.Event()
            self._start(self._questions, client, server, broken)
            self._start(self._answers, client, server, broken)

    def _questions(self, client: socket.socket, server: socket.socket, broken: threading.Event) -> None:
        fate = None
        while data := _receive(client):
            fate = self._fate(data)
            if fate is Break.UNHEARD:
                break
            if fate is not None:
                broken.set()
            if fate is Break.MEANWHILE:
                _close(client)
            _send(server, data)
        if not broken.is_set() or fate is Break.UNHEARD:
            _close(server)  # otherwise its end stays open until it has answered
        _close(client)

    def _answers(self, client: socket.socket, server: socket.socket, broken: threading.Event) -> None:
        while (data := _receive(server)) and not broken.is_set():
            _send(client, data)
        _close(server)
        _close(client)

    def _fate(self, data: bytes) -> Break | None:
        with self._lock:
            is_commit = b"COMMIT" in data
            if not self.is_flaky or self._chance.random() > self._odds[is_commit]:
                return None
            fate = self._chance.choice(list(Break))
            self.breaks[f"{'COMMIT' if is_commit else 'message'} {fate}"] += 1
            return fate

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()


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
