"""What the agent asks of any model, and what it gets back. Knows no provider, no HTTP and no SDK.

    async with model.open(request) as answer:       # ModelError here ...
        async for piece in answer:                  # ... or here
            TextPiece*  then exactly one RoundEnd

Requests have the shapes of OpenAI's chat completions, which every adapter can translate from. Values that hold what
people or models said keep it out of their `repr`, so that no traceback or log line shows it by accident.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call the model asks for. `arguments` is its raw text: see `tool_arguments` for reading it."""

    id: str
    name: str
    arguments: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One round's question. `messages` and `tools` have the shapes of chat completions; no tools means none."""

    model: str
    messages: tuple[Mapping[str, Any], ...] = field(repr=False)
    tools: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class TextPiece:
    """The text that one upstream read carried; never empty."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class RoundEnd:
    """The round is over. No finish reason means the stream ended in good order without naming one."""

    finish_reason: str | None
    tool_calls: tuple[ToolCall, ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None
    model: str | None = None


class ChatModel(Protocol):
    """A model that can be asked. One instance serves many requests at once."""

    def open(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[TextPiece | RoundEnd]]:
        """Ask, and read the answer as it comes.

        Raises a `ModelError` on entering or while iterating. Leaving the context, also by cancellation at any
        await, closes the upstream connection; nothing is left running.
        """

    async def close(self) -> None:
        """Close every connection. Open answers break off."""
