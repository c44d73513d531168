"""One answer of a chat-completions server while it is being read: its time limits, its faults, its end.

Time limits, both on the loop's clock:

- *first token*: from the request to the first sign of the model itself (text, reasoning, a tool call). Connecting,
  headers, comments and empty role chunks are none: a server may send heartbeats while a model loads, but not for ever.
- *stall*: from then on, between reads. Comments do not count: a proxy can send them for a model that has died. Neither
  does the time in which nobody reads.

Once the model has named its finish reason the answer is whole: silence (5 s) or a cut then ends it in good order.
A body that is JSON and no stream is one whole completion, and has to come within the first-token limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final

import openai

from agent.errors import ModelError, ModelFault, ModelRejected, ModelStreamBroken, ModelUnreachable
from agent.models.decoder import ChunkDecoder
from agent.models.event_stream import MAX_EVENT_BYTES
from agent.models.faults import TRANSPORT_ERRORS, UNSENDABLE_ERRORS, status_fault
from agent.models.protocol import RoundEnd, TextPiece
from agent.models.silence import SilenceTimeout, SilenceWatch

AFTER_FINISH_SECONDS: Final = 5.0
DRAIN_SECONDS: Final = 0.05
"""After `[DONE]` only the end of the body is missing; waiting for it lets the connection be used again."""

PLAIN_BYTES: Final = {"Accept-Encoding": "identity"}


class Answer:
    """One answer: `ask`, iterate, `close`. No async generator: leaving early leaves nothing to be finalised later."""

    def __init__(self, first_token_seconds: float, stall_seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._stall_seconds = stall_seconds
        self._watch = SilenceWatch(self._loop.time() + first_token_seconds)
        self._decoder = ChunkDecoder()
        self._response: Any = None
        self._body: AsyncGenerator[bytes] | None = None
        self._is_whole = False
        self._is_over = False
        self._is_broken_off = False

    async def ask(self, create: Any, model: str, body: dict[str, Any]) -> ModelError | None:
        """Send the request and wait for its status. Returns what was wrong rather than raising it: see `faults`.

        The body goes beside the SDK's own fields, which it would walk through one by one: half the cost of a request.
        """
        try:
            request = create(model=model, messages=(), stream=True, extra_body=body, extra_headers=PLAIN_BYTES)
            self._response = await self._watch.wait(request.__aenter__())
        except SilenceTimeout:
            return self._silence_fault()
        except openai.APIStatusError as error:
            return status_fault(error)
        except TRANSPORT_ERRORS:
            return ModelUnreachable(ModelFault.CONNECTION_FAILED)
        except UNSENDABLE_ERRORS:
            return ModelRejected(ModelFault.REQUEST_INVALID)
        return self._open_body()

    def __aiter__(self) -> AsyncIterator[TextPiece | RoundEnd]:
        return self

    async def __anext__(self) -> TextPiece | RoundEnd:
        if self._is_over:
            raise StopAsyncIteration
        text = await (self._read_whole() if self._is_whole else self._read_text())
        if text:
            return TextPiece(text)
        self._is_over = True
        if self._decoder.fault is not None:
            raise self._decoder.fault
        return self._decoder.finish()

    def break_off(self) -> None:
        """The adapter is closing: a wait that is under way ends now. (aiohttp would let it go on for ever.)"""
        self._is_broken_off = True
        self._watch.interrupt()

    async def close(self) -> None:
        """Give the connection back if the answer was read to its end, else close it. Raises no transport's error."""
        try:
            if self._decoder.is_done and self._decoder.fault is None and self._body is not None:
                self._watch.move(self._loop.time() + DRAIN_SECONDS)
                await self._next_read()
        except ModelError:
            pass
        finally:
            self._watch.stop()
            await self._let_go()

    def _open_body(self) -> ModelError | None:
        response = self._response.http_response
        content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type == "text/html":
            return ModelStreamBroken(ModelFault.NOT_A_STREAM, status=response.status_code)
        self._is_whole = content_type == "application/json"
        is_plain = response.headers.get("content-encoding", "identity") == "identity"
        self._body = response.aiter_raw() if is_plain else response.aiter_bytes()
        return None

    async def _read_text(self) -> str:
        """The text of the next read that has any; "" at the end."""
        while self._body is not None and not self._decoder.is_done:
            if self._decoder.has_begun and self._decoder.heard:
                self._watch.move(self._loop.time() + self._pause_seconds())
            try:
                data = await self._next_read()
            except ModelError:
                if not self._decoder.has_finish_reason:
                    raise
                return ""
            text = self._decoder.end() if data is None else self._decoder.feed(data)
            if text:
                return text
        return ""

    async def _read_whole(self) -> str:
        parts: list[bytes] = []
        size = 0
        while (data := await self._next_read()) is not None:
            parts.append(data)
            size += len(data)
            if size > MAX_EVENT_BYTES:
                raise ModelStreamBroken(ModelFault.TOO_LARGE)
        return self._decoder.feed_whole(b"".join(parts)) if parts else ""

    async def _next_read(self) -> bytes | None:
        """The next bytes of the body; None at its end and ever after. Raises ModelError."""
        if self._body is None:
            return None
        fault: ModelError | None
        try:
            return await self._watch.wait(anext(self._body))
        except StopAsyncIteration:
            fault = None
        except SilenceTimeout:
            fault = self._silence_fault()
        except TRANSPORT_ERRORS:
            fault = ModelStreamBroken(ModelFault.CUT)
        self._body = None
        if fault is not None:
            raise fault
        return None

    def _pause_seconds(self) -> float:
        return (
            min(self._stall_seconds, AFTER_FINISH_SECONDS) if self._decoder.has_finish_reason else self._stall_seconds
        )

    def _silence_fault(self) -> ModelError:
        if self._is_broken_off:
            return ModelStreamBroken(ModelFault.CUT)
        if self._decoder.has_begun:
            return ModelStreamBroken(ModelFault.STALLED)
        return ModelUnreachable(ModelFault.NO_ANSWER)

    async def _let_go(self) -> None:
        """The transport is closed (or pooled, after a whole read) before the first await: also in a cancelled task."""
        try:
            if self._response is not None:
                await self._response.close()
            if self._body is not None:
                await self._body.aclose()
        except TRANSPORT_ERRORS:
            pass
