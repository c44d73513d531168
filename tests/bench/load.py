"""The load: many streams at once against one address on loopback, and what each of them took.

A `Target` says how a message is put to a server and how its answer is read; `Load` keeps so many streams open and
measures. A stream's times run from the request's last byte written to its first *text* and to its last byte.
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol, cast
from urllib.parse import urlsplit

import httptools

PATIENCE_SECONDS: Final = 60.0
#: Enough of a stream's end to find its last event in.
_TAIL_BYTES: Final = 4096


@dataclass(frozen=True)
class Message:
    """One request, ready to be written, and how its answer is read.

    text    finds the first event with words of the answer in it
    end     finds what only a whole answer has in its last bytes
    """

    request: bytes
    text: re.Pattern[bytes]
    end: re.Pattern[bytes]


class Asker(Protocol):
    """Somebody who puts one message after the other, on one connection."""

    @property
    def opens_chat(self) -> bool:
        """Whether the last message was the first of a chat."""

    def message(self, wish: str) -> Message: ...

    def heard(self, answer: bytes) -> None:
        """The beginning of the last answer, up to its first words."""


@dataclass(frozen=True)
class Answer:
    """One answer as it arrived. Seconds. `problem` is empty for a whole answer."""

    first: float
    total: float
    problem: str = ""


@dataclass
class Measured:
    """What many answers took together."""

    answers: list[Answer] = field(default_factory=list)
    tokens: int = 0

    @property
    def first_ms(self) -> list[float]:
        return [answer.first * 1000 for answer in self.answers if not answer.problem]

    @property
    def problems(self) -> Counter[str]:
        return Counter(answer.problem for answer in self.answers if answer.problem)

    def add(self, answer: Answer, tokens: int) -> None:
        self.answers.append(answer)
        self.tokens += 0 if answer.problem else tokens


class Line(asyncio.Protocol):
    """One connection. It carries one request at a time and can be used again while `is_open`."""

    def __init__(self) -> None:
        self.is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self._finish("cut")

    def ask(self, message: Message) -> None:
        """Write the request; then await `first_text` or `answer`."""
        loop = asyncio.get_running_loop()
        self.first_text: asyncio.Future[bytes] = loop.create_future()
        self.answer: asyncio.Future[Answer] = loop.create_future()
        self._message, self._parser = message, httptools.HttpResponseParser(self)
        self._first, self._seen = 0.0, b""
        self._asked_at = time.perf_counter()
        self._transport.write(message.request)

    def abort(self) -> None:
        """Go away without a word, as a closed tab does."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    # What the parser calls.

    def on_body(self, data: bytes) -> None:
        self._seen += data
        if self._first:
            self._seen = self._seen[-_TAIL_BYTES:]
        elif self._message.text.search(self._seen):
            self._first = time.perf_counter() - self._asked_at
            self.first_text.set_result(self._seen)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status != 200:
            self._finish(f"status {status}")
        elif not self._first:
            self._finish("no text")
        else:
            self._finish("" if self._message.end.search(self._seen) else "not whole")

    def _finish(self, problem: str) -> None:
        if not hasattr(self, "answer") or self.answer.done():
            return
        self.answer.set_result(Answer(self._first, time.perf_counter() - self._asked_at, problem))
        if not self.first_text.done():
            self.first_text.set_result(b"")


async def connect(address: str) -> Line:
    """A connection to an http address of this machine."""
    parts = urlsplit(address)
    if parts.hostname != "127.0.0.1" or parts.port is None:
        raise ValueError("the bench sends to this machine only")
    _, line = await asyncio.get_running_loop().create_connection(Line, parts.hostname, parts.port)
    return line


async def ask(line: Line, asker: Asker, wish: str) -> Answer:
    """Put one message and wait for its whole answer."""
    line.ask(asker.message(wish))
    async with asyncio.timeout(PATIENCE_SECONDS):
        answer = await line.answer
        asker.heard(await line.first_text)
    return answer


async def keep_open(
    address: str, askers: list[Asker], *, answers_each: int, tokens: int, delay: float, ramp_seconds: float = 0.0
) -> Measured:
    """As many streams at once as there are askers, each `answers_each` times, begun one by one over the ramp."""
    measured = Measured()
    wish = f"tokens={tokens} delay={delay}"

    async def talk(asker: Asker, wait_seconds: float) -> None:
        await asyncio.sleep(wait_seconds)
        line = await connect(address)
        for _ in range(answers_each):
            measured.add(await ask(line, asker, wish), tokens)
            if not line.is_open:
                line = await connect(address)
        line.abort()

    waits = (ramp_seconds * number / len(askers) for number in range(len(askers)))
    await asyncio.gather(*(talk(asker, wait) for asker, wait in zip(askers, waits, strict=True)))
    return measured


class HeldStreams:
    """Streams that have said their first words and then say nothing more, until they are let go."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._lines: list[Line] = []
        self.failed = 0

    async def open(self, askers: Iterator[Asker], *, at_once: int = 20) -> None:
        """Open one stream for each asker, so many at once."""

        async def open_some() -> None:
            for asker in askers:
                line = await connect(self._address)
                line.ask(asker.message("tokens=2 delay=600"))
                self._lines.append(line)
                async with asyncio.timeout(PATIENCE_SECONDS):
                    self.failed += not await line.first_text

        await asyncio.gather(*(open_some() for _ in range(at_once)))

    @property
    def open_count(self) -> int:
        return sum(line.is_open and not line.answer.done() for line in self._lines)

    def let_go(self) -> None:
        """Close every connection."""
        for line in self._lines:
            if line.is_open:
                line.abort()
