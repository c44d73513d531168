"""HTTP/1.1 for one loopback connection, as little of it as the rehearsal model needs. Knows no model.

A request is answered by a task of its own, which is cancelled the moment the client goes. Connections are kept alive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeAlias, cast

import orjson

MAX_HEAD_BYTES: Final = 64 * 1024
MAX_BODY_BYTES: Final = 16 * 1024 * 1024

Handler: TypeAlias = Callable[["HttpRequest", "HttpResponse"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class HttpRequest:
    method: str
    path: str
    body: bytes


class HttpResponse:
    """What a handler writes to: one JSON answer, or an event stream piece by piece."""

    def __init__(self, transport: asyncio.Transport, may_write: asyncio.Event) -> None:
        self._transport = transport
        self._may_write = may_write

    def send_json(self, status: int, value: Any) -> None:
        body = orjson.dumps(value)
        head = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._transport.write(_status_line(status) + head.encode() + body)

    def send_error(self, status: int, message: str) -> None:
        """An error in OpenAI's shape."""
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
        self.send_json(status, {"error": error})

    def begin_stream(self) -> None:
        head = "Content-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-store\r\n"
        self._transport.write(_status_line(200) + head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")

    async def send_event(self, value: Any) -> None:
        """One `data:` line; waits while the client reads slowly."""
        await self.send(b"data: " + orjson.dumps(value) + b"\n\n")

    async def send(self, data: bytes) -> None:
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        await self._may_write.wait()

    def end_stream(self) -> None:
        self._transport.write(b"0\r\n\r\n")


class Connection(asyncio.Protocol):
    """One client. `connections` is the server's set of open ones, which this keeps itself in."""

    def __init__(self, handler: Handler, connections: set[Connection]) -> None:
        self._handler = handler
        self._connections = connections
        self._buffer = bytearray()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._may_write.set()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._answer_next()

    async def close(self) -> None:
        """Break off what is being answered and close the connection."""
        self._transport.abort()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _answer_next(self, _: object = None) -> None:
        if (self._task is not None and not self._task.done()) or self._transport.is_closing():
            return
        request = self._take_request()
        if request is not None:
            response = HttpResponse(self._transport, self._may_write)
            self._task = asyncio.ensure_future(self._handler(request, response))
            self._task.add_done_callback(self._answer_next)

    def _take_request(self) -> HttpRequest | None:
        """The next complete request, or None. One that cannot be read is answered here and ends the connection."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MAX_HEAD_BYTES:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return None
        first, *lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        words = first.split(" ")
        length = _length(headers)
        if len(words) != 3 or length is None:
            self._refuse(HTTPStatus.BAD_REQUEST)
            return None
        if length > MAX_BODY_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return None
        start, stop = end + 4, end + 4 + length
        if len(self._buffer) < stop:
            return None
        body = bytes(self._buffer[start:stop])
        del self._buffer[:stop]
        return HttpRequest(words[0], words[1].partition("?")[0], body)

    def _refuse(self, status: HTTPStatus) -> None:
        HttpResponse(self._transport, self._may_write).send_error(status, status.phrase)
        self._transport.close()


def _length(headers: dict[str, str]) -> int | None:
    """The body's length; None where it is not told as a plain number (a chunked request is none we need)."""
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not length.isascii() or not length.isdigit():
        return None
    return int(length)


def _status_line(status: int) -> bytes:
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()
