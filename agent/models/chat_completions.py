"""Chat completions over HTTP, as OpenAI, Ollama, vLLM, llama.cpp and their like serve them. Knows no turn, no memory.

The `openai` package makes the request and reports its refusal; `answer` reads the body.
Its own retries are off: whether a model is asked again is the turn's decision.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import openai

from agent.models.answer import Answer
from agent.models.protocol import ModelRequest, RoundEnd, TextPiece

CONNECT_SECONDS: Final = 10.0
KEEP_ALIVE_SECONDS: Final = 4.0
"""Below the 5 s after which uvicorn and its like close an idle connection: a POST must not meet that moment."""

NO_KEY: Final = "none"
"""Sent where no key is configured: local servers want none, the SDK insists on one."""


class ChatCompletions:
    """A `ChatModel`. Make it inside the event loop that uses it; `close` it there.

    base_url               up to and with `/v1`
    first_token_seconds    how long the model may take to begin: see `answer`, as for
    stall_seconds          how long it may then pause
    max_connections        open answers at once; one more waits, within its first-token limit
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        first_token_seconds: float = 120.0,
        stall_seconds: float = 60.0,
        max_connections: int = 5000,
    ) -> None:
        self._first_token_seconds = first_token_seconds
        self._stall_seconds = stall_seconds
        self._open: set[Answer] = set()
        self._usage_is_known = False
        self._usage_is_refused = False
        self._client = openai.AsyncOpenAI(
            base_url=base_url,
            api_key=api_key or NO_KEY,
            max_retries=0,
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            http_client=openai.DefaultAioHttpClient(
                limits=httpx2.Limits(max_connections=max_connections, keepalive_expiry=KEEP_ALIVE_SECONDS),
                trust_env=not is_loopback(base_url),
            ),
        )
        self._create: Any = self._client.chat.completions.with_streaming_response.create

    @asynccontextmanager
    async def open(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[TextPiece | RoundEnd]]:
        answer = Answer(self._first_token_seconds, self._stall_seconds)
        self._open.add(answer)
        try:
            await self._ask(answer, request)
            yield answer
        finally:
            self._open.discard(answer)
            await answer.close()

    async def close(self) -> None:
        for answer in self._open:
            answer.break_off()
        await self._client.close()

    async def _ask(self, answer: Answer, request: ModelRequest) -> None:
        """Ask with usage counts. A server that refuses that is asked once more without; if it helps, always so.

        A 400 that has other reasons costs one more refusal, and only until usage counts have worked once.
        """
        body: dict[str, Any] = {"messages": [dict(message) for message in request.messages]}
        if request.tools:
            body["tools"] = [dict(tool) for tool in request.tools]
        if not self._usage_is_refused:
            fault = await answer.ask(self._create, request.model, {**body, "stream_options": {"include_usage": True}})
            if fault is None:
                self._usage_is_known = True
                return
            if self._usage_is_known or fault.status not in {400, 422}:
                raise fault
        fault = await answer.ask(self._create, request.model, body)
        if fault is not None:
            raise fault
        self._usage_is_refused = True


def is_loopback(base_url: str) -> bool:
    """Whether the address is this machine: then a proxy from the environment is not for it."""
    host = urlsplit(base_url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
