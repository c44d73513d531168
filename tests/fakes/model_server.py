"""A scripted model server that speaks the OpenAI wire protocol on loopback. It plays what a test tells it.

    async with ModelServer() as server:                       # inside a test's event loop
        server.play(text("Hel", "lo"), finish("stop"), usage(12, 2))
        ... OPENAI_BASE_URL = server.base_url ...
        await server.reached(completed=1)

    with serve_in_thread(choose) as server:                   # from synchronous tests, the browser's for example
        server.wait_reached(open=1)

Each request takes the next script of `play`, or what `choose(request)` returns; with neither it is answered with 500
and counted in `unscripted`. A script is a sequence of steps, played in order; after the last one the server sends
`data: [DONE]` and ends the response in good order, unless a step ended it otherwise. Order comes from gates, never
from sleeping: `gate(event)` holds the script until a `Gate`, an `asyncio.Event` of the same loop or a
`threading.Event` is set, or the client has gone.

`requests` holds what was asked, `clients` the port of every connection that was ever made.

Counters: `requests` (taken), `open` (being answered now), `aborted` (the client went before the script's end),
`completed` (played to the end, faults included). One request is in exactly one of the last three.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import cast

from tests.fakes.gate import WAIT_SECONDS, Gate
from tests.fakes.model_exchange import ClientGone, Exchange, RecordedRequest
from tests.fakes.model_script import (
    Script,
    Step,
    begin,
    chunk,
    cut,
    delta,
    error_status,
    finish,
    gate,
    no_done,
    raw,
    reset,
    stall,
    text,
    tool,
    usage,
    whole,
)

__all__ = [
    "Counters",
    "Gate",
    "ModelServer",
    "RecordedRequest",
    "Script",
    "Step",
    "begin",
    "chunk",
    "cut",
    "delta",
    "error_status",
    "finish",
    "gate",
    "no_done",
    "raw",
    "reset",
    "serve_in_thread",
    "stall",
    "text",
    "tool",
    "usage",
    "whole",
]


@dataclass
class Counters:
    requests: int = 0
    open: int = 0
    aborted: int = 0
    completed: int = 0
    unscripted: int = 0


class ModelServer:
    """See the module's docstring. `choose` picks a script by the request; `play` queues one for the next request."""

    def __init__(self, choose: Callable[[RecordedRequest], Script] | None = None) -> None:
        self.requests: list[RecordedRequest] = []
        self.clients: list[int] = []
        self.counters = Counters()
        self.choose = choose
        self._scripts: deque[Script] = deque()
        self._changed = threading.Condition()
        self._numbers = count(1)
        self._connections: set[_Connection] = set()
        self._answers: list[asyncio.Task[None]] = []
        self._server: asyncio.Server | None = None

    @property
    def base_url(self) -> str:
        assert self._server is not None, "the server has not been started"
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    def play(self, *steps: Step) -> None:
        """Queue one script; every call answers one request, in order."""
        self._scripts.append(steps)

    async def __aenter__(self) -> ModelServer:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", 0, backlog=4096)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in (connections := tuple(self._connections)):
            connection.transport.abort()
        await asyncio.gather(*[connection.gone.wait() for connection in connections])
        await asyncio.gather(*self._answers)
        await self._server.wait_closed()

    def wait_reached(self, *, within_seconds: float = WAIT_SECONDS, **counts: int) -> None:
        """Block until every named counter is at least its number; AssertionError when that takes too long."""
        with self._changed:
            done = self._changed.wait_for(lambda: self._has(counts), within_seconds)
        assert done, f"waited for {counts}, have {self.counters}"

    async def reached(self, *, within_seconds: float = WAIT_SECONDS, **counts: int) -> None:
        """`wait_reached` for code in the server's own loop."""
        await asyncio.to_thread(self.wait_reached, within_seconds=within_seconds, **counts)

    def wait_idle(self) -> None:
        """Block until no request is being answered."""
        with self._changed:
            done = self._changed.wait_for(lambda: self.counters.open == 0, WAIT_SECONDS)
        assert done, f"waited for no open request, have {self.counters}"

    async def idle(self) -> None:
        """`wait_idle` for code in the server's own loop."""
        await asyncio.to_thread(self.wait_idle)

    def _has(self, counts: dict[str, int]) -> bool:
        return all(getattr(self.counters, name) >= number for name, number in counts.items())

    def _count(self, **changes: int) -> None:
        with self._changed:
            for name, change in changes.items():
                setattr(self.counters, name, getattr(self.counters, name) + change)
            self._changed.notify_all()

    def _take_script(self, request: RecordedRequest) -> Script:
        if self._scripts:
            return self._scripts.popleft()
        if self.choose is not None:
            return self.choose(request)
        self._count(unscripted=1)
        return (error_status(500),)

    async def _answer(self, connection: _Connection, request: RecordedRequest) -> None:
        self.requests.append(request)
        self._count(requests=1, open=1)
        exchange = Exchange(connection.transport, connection.gone, request, next(self._numbers))
        played = False
        try:
            for step in self._take_script(request):
                await step(exchange)
                if exchange.ended:
                    break
            exchange.end(done=True)
            played = True
        except ClientGone:
            pass
        finally:
            self._count(open=-1, **{"completed" if played else "aborted": 1})


@dataclass(eq=False)
class _Connection(asyncio.Protocol):
    """HTTP/1.1 with keep-alive, as little of it as a model's client needs."""

    server: ModelServer
    buffer: bytearray = field(default_factory=bytearray)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is not of that class
        self.gone = asyncio.Event()
        self.answering: asyncio.Task[None] | None = None
        self.server._connections.add(self)
        self.server.clients.append(transport.get_extra_info("peername")[1])

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()
        self.server._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self._answer_next()

    def _answer_next(self, _: object = None) -> None:
        if self.answering is not None and not self.answering.done():
            return
        request = self._parse()
        if request is not None:
            self.answering = asyncio.ensure_future(self.server._answer(self, request))
            self.server._answers.append(self.answering)
            self.answering.add_done_callback(self._answer_next)

    def _parse(self) -> RecordedRequest | None:
        head, separator, rest = bytes(self.buffer).partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(headers.get("content-length", 0))
        if not separator or len(rest) < size:
            return None
        self.buffer[:] = rest[size:]
        return RecordedRequest(first.split(" ")[1], headers, json.loads(rest[:size] or b"{}"))


@contextmanager
def serve_in_thread(choose: Callable[[RecordedRequest], Script] | None = None) -> Iterator[ModelServer]:
    """A server in a thread and loop of its own, for synchronous tests; closed on leaving."""
    server = ModelServer(choose)
    started, stop = threading.Event(), Gate()

    async def run() -> None:
        async with server:
            started.set()
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(run(),), name="model-server", daemon=True)
    thread.start()
    try:
        assert started.wait(WAIT_SECONDS), "the model server did not start"
        yield server
    finally:
        stop.open()
        thread.join(WAIT_SECONDS)
