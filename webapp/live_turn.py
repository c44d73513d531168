"""A turn while it runs, as the frames a browser swaps in.

What opens and what closes the stream is what a reload would show at that moment, made by the same partials; the
closing is read from the database after the turn's end is on record.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

import anyio

from agent.events import MemoryStaged, TextDelta, ToolStarted, TurnEnded, TurnEvent, TurnStarted
from agent.outcome import MemoryStatus, Outcome
from agent.running import PACE_SECONDS, RunningTurn
from agent.transcript import TurnRecord
from memory_core.errors import StorageFailed
from webapp import frames, presenting, words
from webapp.auth.person import Person
from webapp.chat_pages import ChatPages, read_chat
from webapp.markdown import MarkdownStream
from webapp.services import Services
from webapp.views import AnswerState, AnswerView, ChatView, Place, QuestionView, TurnView

#: How far the clocks of the loop and of the renderer may be apart.
CLOCK_SECONDS = 0.002
#: An answer longer than this may take longer to render than others can wait.
LONG_CHARS = 4_000

T = TypeVar("T")


class LiveTurn:
    """One stream, for one reader."""

    def __init__(self, services: Services, person: Person, running: RunningTurn) -> None:
        self._services = services
        self._person = person
        self._running = running
        self._turn = running.turn
        self._markdown = MarkdownStream()
        self._step_is_shown = True

    async def frames(self) -> AsyncIterator[bytes]:
        """Ready bytes, one piece for whatever has come together since the last; the first text leaves at once."""
        loop, texts_from = asyncio.get_running_loop(), 0.0
        while (batch := await self._running.outbox.take(texts_from)) is not None:
            taken_at = loop.time()
            yield b"".join([await self._frame(event) for event in batch])
            if isinstance(batch[-1], TextDelta):
                rested_at = loop.time() + self._markdown.rest_seconds + CLOCK_SECONDS
                texts_from = max(taken_at + PACE_SECONDS, rested_at)

    async def _frame(self, event: TurnEvent) -> bytes:
        match event:
            case TextDelta(text):
                change = self._markdown.feed(text)
                return self._without_step() + frames.text(self._turn.id, change.frozen, change.live)
            case ToolStarted(tool):
                self._step_is_shown = True
                return frames.step(self._turn.id, words.step(tool))
            case MemoryStaged(changes=changes):
                receipt = presenting.waiting(self._turn.id, changes)
                return frames.receipt(replace(receipt, agent_id=self._turn.owner.agent_id))
            case TurnStarted():
                return await self._opening()
            case TurnEnded():
                return await self._closing(event)

    def _without_step(self) -> bytes:
        if not self._step_is_shown:
            return b""
        self._step_is_shown = False
        return frames.step(self._turn.id, "")

    async def _opening(self) -> bytes:
        """The question and the answer's empty shell; for a new chat its heading, its panel and its place in the list
        too.
        """
        turn, has_memory = self._turn, self._turn.memory_status is not MemoryStatus.OFF
        shell = TurnView(
            id=turn.id,
            conversation_id=turn.conversation_id,
            question=QuestionView(turn.question, datetime.now(UTC)) if turn.regenerates_id is None else None,
            answer=AnswerView(
                state=AnswerState.WRITING,
                label=words.LABELS[Outcome.RUNNING],
                step=words.THINKING if has_memory else words.THINKING_WITHOUT_MEMORY,
            ),
        )
        if not turn.conversation_is_new:
            return frames.started(shell, title=turn.title)
        # What a new chat holds is known; only what stands beside it is read.
        pages = ChatPages.at_once(self._services.settings, self._person)
        data = await self._services.read(lambda connection: read_chat(connection, turn.owner, None))
        chat = ChatView(turn.conversation_id, turn.title, turns=(), panel=pages.panel(data, Place.SIDE), key="")
        return frames.started(shell, chat=chat, groups=pages.groups(data, open_id=turn.conversation_id))

    async def _closing(self, event: TurnEnded) -> bytes:
        """The answer as a reload would show it, and the panel. Without a database: as much as the turn itself knows."""
        turn, ending = self._turn, event.ending
        pages = ChatPages.at_once(self._services.settings, self._person)
        try:
            data = await self._services.read(
                lambda connection: read_chat(connection, turn.owner, turn.conversation_id, around=turn.id)
            )
        except StorageFailed:
            data = None
        record = data.turn(turn.id) if data is not None else None
        if ending.outcome is Outcome.RUNNING and record is not None:
            ending = record.ending  # what could not be known a moment ago
        view = None
        if data is not None:
            view = await _out_of_the_way(lambda: pages.turn(data, turn.id, is_new=True), record)
        if view is None or view.answer.state is not AnswerState.DONE:
            view = TurnView(turn.id, turn.conversation_id, pages.unread_answer(ending))
        if not view.answer.prose:
            view = replace(view, answer=replace(view.answer, prose=self._markdown.finish()))
        others = (
            [other.id for other in data.conversation.turns if other.superseded] if data and data.conversation else []
        )
        return frames.ended(
            view,
            words.announcement(ending),
            outcome=str(ending.outcome),
            memory=str(ending.memory.outcome),
            panel=pages.panel(data, Place.SIDE) if data is not None else None,
            replaces=others,
        )


async def _out_of_the_way(work: Callable[[], T], record: TurnRecord | None) -> T:
    """A long answer is much Markdown: not on the loop that everybody's streams run on."""
    if record is not None and len(record.answer or "") > LONG_CHARS:
        return await anyio.to_thread.run_sync(work)
    return work()
