"""One request to the fake model server while it is being answered: what the steps of a script write to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RecordedRequest:
    """One request as it arrived. `body` is the decoded JSON object."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body.get("messages", []))

    @property
    def tool_names(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.body.get("tools", [])]

    @property
    def last_user_text(self) -> str:
        said = [message["content"] for message in self.messages if message.get("role") == "user"]
        return str(said[-1]) if said else ""


class ClientGone(Exception):
    """The client closed its connection before the script's end."""


@dataclass
class Exchange:
    """One request being answered: what steps write to."""

    transport: asyncio.Transport
    gone: asyncio.Event
    request: RecordedRequest
    number: int
    begun: bool = False
    ended: bool = False

    def begin(
        self, content_type: str = "text/event-stream; charset=utf-8", headers: dict[str, str] | None = None
    ) -> None:
        if self.begun:
            return
        self.begun = True
        lines = [f"{name}: {value}\r\n" for name, value in (headers or {}).items()]
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n{''.join(lines)}\r\n"
        self._write(head.encode())

    def send(self, data: bytes) -> None:
        self.begin()
        self._write(b"%x\r\n%b\r\n" % (len(data), data))

    def send_chunk(self, choices: list[Any], **more: Any) -> None:
        head = {"id": f"chatcmpl-{self.number}", "object": "chat.completion.chunk", "created": 0}
        value = {**head, "model": self.request.body.get("model", "fake"), "choices": choices, **more}
        self.send(b"data: " + to_json(value) + b"\n\n")

    def send_delta(self, value: Any, **choice: Any) -> None:
        self.send_chunk([{"index": 0, "delta": value, "finish_reason": None, **choice}])

    def send_whole(self, status: int, body: bytes, content_type: str, headers: dict[str, str]) -> None:
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        size = f"Content-Length: {len(body)}\r\n"
        head = f"HTTP/1.1 {status} Fake\r\nContent-Type: {content_type}\r\n{size}{''.join(lines)}\r\n"
        self.begun = self.ended = True
        self._write(head.encode() + body)

    def end(self, *, done: bool) -> None:
        if self.ended:
            return
        if done:
            self.send(b"data: [DONE]\n\n")
        self.begin()
        self._write(b"0\r\n\r\n")
        self.ended = True

    async def wait_for(self, event: Awaitable[None]) -> None:
        """Wait for the event, or raise ClientGone."""
        waiting = asyncio.ensure_future(event)
        gone = asyncio.ensure_future(self.gone.wait())
        try:
            await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            gone.cancel()
        if self.gone.is_set():
            raise ClientGone

    def _write(self, data: bytes) -> None:
        if self.gone.is_set():
            raise ClientGone
        self.transport.write(data)


def to_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
