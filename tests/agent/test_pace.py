"""The pace at which an answer is read: at once at first, then no more often than it is shown to anybody."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from agent.conversation import Limits, RoundRequest, converse
from agent.models.protocol import ModelRequest, RoundEnd, TextPiece
from agent.outcome import MemoryStatus
from agent.reply import Reply
from agent.running import LONGEST_PAUSE_SECONDS, PACE_SECONDS, RunningTurn, RunningTurns
from agent.runtime import AgentRuntime
from agent.tools.memory_update import MemoryTool
from agent.turn_desk import TurnDesk


class Speaker:
    """A model that says one word a read, and notes when it is read."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.log: list[str] = []

    @asynccontextmanager
    async def open(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[TextPiece | RoundEnd]]:
        async def read() -> AsyncIterator[TextPiece | RoundEnd]:
            for word in self.words:
                self.log.append(word)
                yield TextPiece(word)
            self.log.append("end")
            yield RoundEnd("stop")

        yield read()

    async def close(self) -> None:
        pass

    def pause(self) -> float:
        self.log.append("pause")
        return 0.0


async def test_reading_pauses_after_every_text_but_the_first() -> None:
    """So the first words are followed by the next at once, and an answer in one piece by its end."""
    for words, log in (
        (["a", "b", "c"], ["a", "b", "pause", "c", "pause", "end"]),
        (["a"], ["a", "end"]),
    ):
        model = Speaker(*words)
        reply = Reply(None, MemoryTool(None), MemoryStatus.OFF)
        request = RoundRequest(model, ("any",), (), (), reply)

        said = [event async for event in converse(request, Limits(pause_seconds=model.pause))]

        assert model.log == log
        assert len(said) == len(words)


@pytest.mark.parametrize(
    ("answers", "pause_seconds"),
    [(1, 1.1 * PACE_SECONDS), (50, 0.1), (10_000, LONGEST_PAUSE_SECONDS)],
)
def test_the_pause_grows_with_the_answers_that_are_written_at_once(answers: int, pause_seconds: float) -> None:
    """Never below the pace of those who show it, and never so long that text stops flowing."""
    running = RunningTurns(cast(TurnDesk, None), cast(AgentRuntime, None), Limits())
    running._running = {str(number): cast(RunningTurn, None) for number in range(answers)}

    assert running._limits.pause_seconds() == pytest.approx(pause_seconds)
