"""The steps a scripted answer is made of. A step writes to the exchange, waits, or ends it; it never sleeps."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tests.fakes.gate import Gate, event_set
from tests.fakes.model_exchange import Exchange, to_json

ARGUMENT_FRAGMENT_CHARS = 7

Step = Callable[[Exchange], Awaitable[None]]
Script = Sequence[Step]


def text(*pieces: str) -> Step:
    """The pieces as content deltas, one write each."""

    async def play(exchange: Exchange) -> None:
        for piece in pieces:
            exchange.send_delta({"content": piece})

    return play


def delta(value: Any, **choice: Any) -> Step:
    """Any delta as it is; keyword arguments go into the choice beside it."""

    async def play(exchange: Exchange) -> None:
        exchange.send_delta(value, **choice)

    return play


def chunk(value: Any) -> Step:
    """Any JSON value as one `data:` line."""

    async def play(exchange: Exchange) -> None:
        exchange.send(b"data: " + to_json(value) + b"\n\n")

    return play


def tool(name: str, arguments: Any, *, id: str | None = None, index: int = 0) -> Step:
    """One tool call as real servers send it: id and name first, then the arguments in fragments.

    Arguments that are a string are sent as they are, anything else as its JSON.
    """
    written = arguments if isinstance(arguments, str) else to_json(arguments).decode()

    async def play(exchange: Exchange) -> None:
        head = {"name": name, "arguments": ""}
        call_id = id or f"call_{exchange.number}_{index}"
        exchange.send_delta({"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": head}]})
        for start in range(0, len(written), ARGUMENT_FRAGMENT_CHARS):
            part = {"arguments": written[start : start + ARGUMENT_FRAGMENT_CHARS]}
            exchange.send_delta({"tool_calls": [{"index": index, "function": part}]})

    return play


def finish(reason: str) -> Step:
    """The chunk that names the finish reason."""
    return delta({}, finish_reason=reason)


def usage(input_tokens: int, output_tokens: int) -> Step:
    """The usage chunk, with its empty `choices`."""
    total = input_tokens + output_tokens
    counts = {"prompt_tokens": input_tokens, "completion_tokens": output_tokens, "total_tokens": total}

    async def play(exchange: Exchange) -> None:
        exchange.send_chunk([], usage=counts)

    return play


def raw(data: bytes) -> Step:
    """Bytes as they are, in one write."""

    async def play(exchange: Exchange) -> None:
        exchange.send(data)

    return play


def gate(event: Gate | asyncio.Event | threading.Event) -> Step:
    """Waits until the event is set, or the client has gone."""

    async def play(exchange: Exchange) -> None:
        await exchange.wait_for(event_set(event))

    return play


def stall() -> Step:
    """Never goes on: the script ends when the client goes (aborted) or the server closes."""

    async def play(exchange: Exchange) -> None:
        await exchange.wait_for(asyncio.get_running_loop().create_future())

    return play


def no_done() -> Step:
    """The response ends in good order, without `[DONE]`."""

    async def play(exchange: Exchange) -> None:
        exchange.end(done=False)

    return play


def cut() -> Step:
    """The connection closes in the middle of the response."""

    async def play(exchange: Exchange) -> None:
        exchange.begin()
        exchange.transport.close()
        exchange.ended = True

    return play


def reset() -> Step:
    """The connection is reset (TCP RST) in the middle of the response."""

    async def play(exchange: Exchange) -> None:
        exchange.begin()
        sock = exchange.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        exchange.transport.abort()
        exchange.ended = True

    return play


def begin(content_type: str = "text/event-stream; charset=utf-8", **headers: str) -> Step:
    """The status line and headers now, before any body; `_` in a name stands for `-`."""

    async def play(exchange: Exchange) -> None:
        exchange.begin(content_type, {name.replace("_", "-"): value for name, value in headers.items()})

    return play


def whole(value: Any, *, status: int = 200, content_type: str = "application/json", **headers: str) -> Step:
    """A complete response that is no stream: JSON of the value, or the value itself if it is bytes."""

    async def play(exchange: Exchange) -> None:
        body = value if isinstance(value, bytes) else to_json(value)
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        exchange.send_whole(status, body, content_type, named)

    return play


def error_status(status: int, *, retry_after: str | int | None = None, code: str | None = None) -> Step:
    """An error response in OpenAI's shape."""
    headers = {} if retry_after is None else {"retry_after": str(retry_after)}
    error = {"message": f"the fake says {status}", "type": "fake_error", "param": None, "code": code}
    return whole({"error": error}, status=status, **headers)
