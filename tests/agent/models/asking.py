"""How the tests of this folder ask a model: one question, a bounded wait, what came back."""

from __future__ import annotations

import asyncio
import re
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from hypothesis import settings

from agent.errors import ModelError
from agent.models.chat_completions import ChatCompletions
from agent.models.protocol import ChatModel, ModelRequest, RoundEnd, TextPiece
from tests.fakes.model_server import Gate, ModelServer

WAIT_SECONDS = 10.0
UNHURRIED = settings(deadline=None)
"""For properties: a busy machine is no counter-example."""

#: Unlikely words, to be searched for wherever they must not be.
SENTINEL = "the-violet-otter-sleeps"
QUESTION_WITH_SENTINEL = ModelRequest("m", ({"role": "user", "content": SENTINEL},))
QUESTION = ModelRequest("model-x", ({"role": "user", "content": "Hello?"},))


@dataclass
class Heard:
    """What one answer gave: its pieces, its end or its error."""

    pieces: list[str] = field(default_factory=list)
    end: RoundEnd | None = None
    error: ModelError | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)


async def ask(model: ChatModel, request: ModelRequest = QUESTION, *, opens: Gate | None = None) -> Heard:
    """Read one answer to its end or its error; `opens` is opened when the first text has come."""
    heard = Heard()
    try:
        async with asyncio.timeout(WAIT_SECONDS), model.open(request) as answer:
            async for piece in answer:
                assert heard.end is None, "something came after the round's end"
                if isinstance(piece, TextPiece):
                    assert piece.text
                    heard.pieces.append(piece.text)
                    if opens is not None:
                        opens.open()
                else:
                    heard.end = piece
    except ModelError as error:
        heard.error = error
    return heard


@asynccontextmanager
async def adapter(server: ModelServer, **settings: float) -> AsyncIterator[ChatCompletions]:
    """An adapter with time limits of the test's choice; patient where it names none."""
    limits = {"first_token_seconds": 30.0, "stall_seconds": 30.0}
    connections = int(settings.pop("max_connections", 5000))
    made = ChatCompletions(server.base_url, "key", max_connections=connections, **{**limits, **settings})
    try:
        yield made
    finally:
        await made.close()


def assert_says_nothing(error: ModelError) -> None:
    """No word of the question or of the provider is in the error, whatever is printed of it."""
    told = [str(error), repr(error), repr(error.args), repr(vars(error)), "".join(traceback.format_exception(error))]
    assert not re.search(SENTINEL, "\n".join(told))
    assert error.__cause__ is None
    assert error.__context__ is None
