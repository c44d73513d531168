"""A model server for load: OpenAI's chat completions on loopback, as fast as one core allows. Judges nothing.

    python -m tests.bench.model                 prints its address and serves until it is ended

What a request wants stands in its last user message, so that it passes through whatever stands in between:

    tokens=200      pieces of the answer; the text is ordinary Markdown, from the beginning again when it is over
    delay=0.02      seconds between two pieces (0: as fast as the connection takes them)
    first=0.25      seconds before the first
    call={…}        the first round calls ``memory_update`` with this JSON (to the message's end), if tools are offered

``GET /stats`` counts requests: taken, open, completed, aborted (the client went before the end).
"""

import asyncio
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import httptools

from tests.bench.loops import run

#: An ordinary answer: paragraphs, a list, code, emphasis. No two are quite alike, and nothing can be kept for the next.
TEXT: Final = """\
A bounded memory is a promise: it can be **read to the end**, by the person it is about and by the model. What is \
not worth a line in it is left in the log, where a search will find it again.

Three things follow from that:

1. Every entry has to earn its place, because the next one may need it.
2. A change is a *proposal* until the turn has ended well.
3. Nothing is saved twice, and nothing is saved in silence.

In code the rule is short. The ledger holds what was staged, and one transaction keeps it:

```python
def commit(ledger: Ledger) -> Receipt:  # answer NUMBER
    with transaction(owner) as unit:
        after = apply(unit.documents, ledger.operations)
        unit.store(after)
    return Receipt(before=ledger.base, after=after)
```

If the transaction fails, the answer says so, and what was remembered stays as it was. That is all there is to it; \
the rest of the work is in saying it plainly.

"""
#: Characters of a piece, about as many as a token has.
PIECE_CHARS: Final = 4
#: Pieces written at once when there is no delay between them.
BATCH: Final = 16

_WISH = re.compile(r"(tokens|delay|first)=([\d.]+)")
_CALL = re.compile(r"call=(\{.*)", re.DOTALL)
_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)
_END = b"0\r\n\r\n"


@dataclass(frozen=True)
class Wish:
    """How one request is to be answered. Seconds."""

    tokens: int
    delay: float
    first: float
    call: str | None


def wish_of(request: dict[str, Any]) -> Wish:
    """What the last user message asks for; a call only in the first round, and only where tools are offered."""
    text, is_first_round = "", True
    for message in reversed(request["messages"]):
        if message["role"] == "user":
            text = str(message["content"])
            break
        is_first_round = False
    found = {name: float(value) for name, value in _WISH.findall(text)}
    call = _CALL.search(text) if is_first_round and request.get("tools") else None
    return Wish(
        tokens=int(found.get("tokens", 200)),
        delay=found.get("delay", 0.0),
        first=found.get("first", 0.0),
        call=call.group(1) if call else None,
    )


def events(wish: Wish, number: int, *, has_usage: bool) -> Iterator[bytes]:
    """The events of one answer, each a chunk of HTTP."""
    head = f'data: {{"id":"chatcmpl-{number}","object":"chat.completion.chunk","created":1700000000,"model":"bench"'
    tail = '],"usage":null}\n\n' if has_usage else "]}\n\n"

    def event(delta: str, reason: str = "null") -> bytes:
        choice = f'{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{reason}}}'
        return _chunk(f'{head},"choices":[{choice}{tail}'.encode())

    yield event('{"role":"assistant","content":""}')
    if wish.call is not None:
        function = {"name": "memory_update", "arguments": wish.call}
        yield event(
            json.dumps({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})
        )
    else:
        for piece in itertools.islice(itertools.cycle(pieces(number)), wish.tokens):
            yield event(json.dumps({"content": piece}, separators=(",", ":")))
    yield event("{}", '"tool_calls"' if wish.call is not None else '"stop"')
    if has_usage:
        counts = f'{{"prompt_tokens":100,"completion_tokens":{wish.tokens},"total_tokens":{100 + wish.tokens}}}'
        yield _chunk(f'{head},"choices":[],"usage":{counts}}}\n\n'.encode())
    yield _chunk(b"data: [DONE]\n\n")


def pieces(number: int) -> list[str]:
    """The text of an answer, in the pieces it is sent in."""
    text = TEXT.replace("NUMBER", f"{number:06}")
    return [text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS)]


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class ModelConnection(asyncio.Protocol):
    """HTTP/1.1 with keep-alive; one answer at a time."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._parser = httptools.HttpRequestParser(self)
        self._body: list[bytes] = []
        self._path = b""
        self._events: Iterator[bytes] | None = None
        self._timer: asyncio.Handle | None = None
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._events is not None:
            self._end("aborted")

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        if self._events is not None and self._timer is None:
            self._send()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    # What the parser calls.

    def on_url(self, url: bytes) -> None:
        self._path, self._body = url, []

    def on_body(self, data: bytes) -> None:
        self._body.append(data)

    def on_message_complete(self) -> None:
        if self._path.endswith(b"/chat/completions"):
            self._answer(json.loads(b"".join(self._body)))
        else:
            body = json.dumps(self._counts).encode()
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    def _answer(self, request: dict[str, Any]) -> None:
        self._counts["taken"] += 1
        self._counts["open"] += 1
        wish = wish_of(request)
        options = request.get("stream_options") or {}
        self._events = events(wish, self._counts["taken"], has_usage=bool(options.get("include_usage")))
        self._delay, self._due = wish.delay, self._loop.time() + wish.first
        # The head and the empty role come at once, as servers send them.
        self._transport.write(_HEAD + next(self._events))
        if wish.first:
            self._timer = self._loop.call_at(self._due, self._send)
        else:
            self._send()

    def _send(self) -> None:
        self._timer = None
        if self._events is None or self._is_paused:
            return
        batch = b"".join(itertools.islice(self._events, 1 if self._delay else BATCH))
        if not batch:
            self._transport.write(_END)
            self._end("completed")
            return
        self._transport.write(batch)
        self._due += self._delay
        self._timer = self._loop.call_at(self._due, self._send) if self._delay else self._loop.call_soon(self._send)

    def _end(self, how: str) -> None:
        self._events = None
        self._counts["open"] -= 1
        self._counts[how] += 1


async def serve() -> None:
    """Serve on a free port of loopback; its address is the first line of output."""
    counts: Counter[str] = Counter(taken=0, open=0, completed=0, aborted=0)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: ModelConnection(counts), "127.0.0.1", 0, backlog=4096)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    run(serve())
