"""A running turn as the API tells of it: events with JSON data in a stream, or one answer when it has ended."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Literal

from agent.errors import TurnNotFound
from agent.events import MemoryStaged, TextDelta, ToolStarted, TurnEnded, TurnEvent, TurnStarted
from agent.outcome import Ending, Outcome, Reason
from agent.running import PACE_SECONDS, RunningTurn
from agent.sessions import SessionTurn, find_session_turn
from memory_core.document import Target
from memory_core.errors import StorageFailed
from webapp.api.base import Output
from webapp.api.outputs import (
    EVENTS,
    MemoryEndingView,
    MemoryStagedData,
    MessageDeltaData,
    ToolStartedData,
    TurnEndedData,
    TurnErrorData,
    TurnResult,
    TurnStartedData,
    TurnView,
)
from webapp.services import Services
from webapp.words import HALTS, NOTHING_SAVED

_NAMES = {model: name for name, model in EVENTS.items()}
_BUSY = "The model takes no more requests right now."


class TurnTale:
    """What one reader is told of one turn; every event has the next number."""

    def __init__(self, services: Services, running: RunningTurn) -> None:
        self._services = services
        self._running = running
        self._turn = running.turn
        self._sequence = 0

    async def frames(self) -> AsyncIterator[bytes]:
        """Ready bytes, one piece for whatever has come together since the last; the first text leaves at once."""
        loop, texts_from = asyncio.get_running_loop(), 0.0
        while (batch := await self._running.outbox.take(texts_from)) is not None:
            if isinstance(batch[-1], TextDelta):
                texts_from = loop.time() + PACE_SECONDS
            yield b"".join([frame(data) for event in batch for data in await self._told(event)])

    async def result(self) -> TurnResult:
        """The whole of it, for somebody who has waited until the turn ended. Raises TurnNotFound for one whose session
        was deleted before anything could be told.
        """
        text, ended = "", None
        while (batch := await self._running.outbox.take()) is not None:
            for event in batch:
                if isinstance(event, TextDelta):
                    text += event.text
                ended = next((data for data in await self._told(event) if isinstance(data, TurnEndedData)), ended)
        if ended is None:
            stored = await self._stored()
            if stored is None:
                raise TurnNotFound
            return turn_result(stored)
        return TurnResult(**dict(ended), text=text)

    async def _told(self, event: TurnEvent) -> list[Output]:
        turn_id = self._turn.id
        match event:
            case TurnStarted():
                return [TurnStartedData(sequence=self._next(), turn_id=turn_id, session_id=event.conversation_id)]
            case TextDelta(text):
                return [MessageDeltaData(sequence=self._next(), turn_id=turn_id, text=text)]
            case ToolStarted(tool):
                return [ToolStartedData(sequence=self._next(), turn_id=turn_id, tool=tool)]
            case MemoryStaged(operation_count, targets):
                staged = MemoryStagedData(
                    sequence=self._next(), turn_id=turn_id, operation_count=operation_count, targets=_counted(targets)
                )
                return [staged]
            case TurnEnded(ending=ending):
                return await self._end(ending)

    async def _end(self, ending: Ending) -> list[Output]:
        """How it ended; what could not be known a moment ago is read once more."""
        stored = await self._stored() if ending.outcome is Outcome.RUNNING else None
        if stored is not None:
            ending = stored.record.ending
        told: list[Output] = []
        if ending.outcome is Outcome.FAILED:
            reason = ending.reason or Reason.INTERNAL
            told = [TurnErrorData(sequence=self._next(), turn_id=self._turn.id, code=reason, message=_why(reason))]
        memory = memory_view(ending) if stored is None else stored_memory_view(stored)
        return [*told, ended_data(self._turn.id, self._next(), ending, memory)]

    async def _stored(self) -> SessionTurn | None:
        organization_id, turn_id = self._turn.owner.organization_id, self._turn.id
        try:
            return await self._services.read(lambda connection: find_session_turn(connection, organization_id, turn_id))
        except (StorageFailed, TurnNotFound):
            return None

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence


def frame(data: Output) -> bytes:
    """One event of a stream."""
    return f"event: {_NAMES[type(data)]}\ndata: {data.model_dump_json(by_alias=True)}\n\n".encode()


def stored_frames(turn: SessionTurn) -> bytes:
    """A turn that has ended, as a stream of three events."""
    turn_id = turn.record.id
    return (
        frame(TurnStartedData(sequence=1, turn_id=turn_id, session_id=turn.session_id))
        + frame(MessageDeltaData(sequence=2, turn_id=turn_id, text=turn.record.answer or ""))
        + frame(ended_data(turn_id, 3, turn.record.ending, stored_memory_view(turn)))
    )


def turn_result(turn: SessionTurn) -> TurnResult:
    """A turn that has ended, as one answer. It is numbered as the stream of it would be."""
    ended = ended_data(turn.record.id, 3, turn.record.ending, stored_memory_view(turn))
    return TurnResult(**dict(ended), text=turn.record.answer or "")


def turn_view(turn: SessionTurn) -> TurnView:
    """A turn as it stands."""
    record, ending = turn.record, turn.record.ending
    return TurnView(
        id=record.id,
        session_id=turn.session_id,
        agent_version=turn.agent_version,
        outcome=ending.outcome,
        reason=ending.reason,
        finish_reason=ending.finish_reason,
        message_id=ending.message_id,
        text=record.answer,
        memory=stored_memory_view(turn),
        started_at=record.started_at,
        ended_at=record.ended_at,
    )


def ended_data(turn_id: str, sequence: int, ending: Ending, memory: MemoryEndingView) -> TurnEndedData:
    return TurnEndedData(
        sequence=sequence,
        turn_id=turn_id,
        outcome=ending.outcome,
        finish_reason=ending.finish_reason,
        message_id=ending.message_id,
        memory=memory,
    )


def memory_view(ending: Ending) -> MemoryEndingView:
    """What became of memory, as the turn itself knows it."""
    targets = [change.target for change in ending.memory.changes]
    counts = {target: targets.count(target) for target in Target}
    return _memory_view(ending, ending.memory.undo_until, counts)


def stored_memory_view(turn: SessionTurn) -> MemoryEndingView:
    """What became of memory, as the database still tells."""
    return _memory_view(turn.record.ending, turn.undo_until, turn.targets)


def _memory_view(ending: Ending, undo_until: datetime | None, targets: Mapping[Target, int] | None) -> MemoryEndingView:
    memory = ending.memory
    return MemoryEndingView(
        outcome=memory.outcome,
        reason=memory.reason,
        receipt_id=memory.receipt_id,
        undo_until=undo_until,
        targets=None if targets is None else _counted(targets),
        user_characters=memory.user_characters,
        memory_characters=memory.memory_characters,
    )


def _counted(targets: Mapping[Target, int]) -> dict[Literal["user", "memory"], int]:
    return {"user": targets.get(Target.USER, 0), "memory": targets.get(Target.MEMORY, 0)}


def _why(reason: Reason) -> str:
    title, _ = HALTS.get(reason, (_BUSY, ""))
    return f"{title} {NOTHING_SAVED}"
