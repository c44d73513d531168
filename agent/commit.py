"""The good end of a turn: one transaction that keeps the answer, the memory and the outcome together, or none of them.

Nothing else in the program saves what a model staged. The turn is claimed first (``running → completed``); whoever
loses that claim has come too late. The batches are applied again to what is stored *now*, under the owner's lock; if
they no longer fit, the answer is kept and memory is refused with its reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from agent.begin import BegunTurn
from agent.errors import TurnClaimed
from agent.outcome import Capacity, Ending, MemoryEnding, MemoryOutcome, MemoryStatus, Outcome
from agent.regeneration import take_back
from agent.tools.memory_update import capacity_of
from agent.transcript import storable
from memory_core.database.tables import conversations, messages, owners, turns
from memory_core.database.transaction import Cancellation, Unit, sqlstate, transaction
from memory_core.document import Target, usage
from memory_core.errors import MemoryUnavailable, OperationRefused, RefusalCode
from memory_core.ids import new_id
from memory_core.operations import Operation
from memory_core.owner import Actor, MemoryMode
from memory_core.store import commit_batches

#: Lock not available, and statement cancelled by its timeout: memory is refused, the answer is kept.
_GAVE_UP_WAITING = frozenset({"55P03", "57014"})


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply that ended well, and what the turn learned on the way. Times in milliseconds."""

    text: str = field(repr=False)
    finish_reason: str | None
    batches: Sequence[Sequence[Operation]] = field(repr=False)
    operation_count: int
    refused: RefusalCode | None = None
    capacity: Capacity | None = None
    model: str | None = None
    fallback: bool = False
    rounds: int = 0
    tool_rounds: tuple[dict[str, Any], ...] = ()
    first_token_ms: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


def commit_turn(
    engine: Engine,
    turn: BegunTurn,
    answer: Answer,
    *,
    memory_enabled: bool,
    undo_hours: int,
    cancel: Cancellation | None = None,
) -> Ending:
    """Keep the answer and, if the rules still allow it, the memory.

    Raises ``TurnClaimed`` when the turn has been ended by somebody else, ``OwnerGone`` when the person was erased,
    ``TransactionCancelled``, ``StorageFailed``; after any of them nothing of the turn is stored. ``CommitUnknown``
    leaves the question open: read the turn again.
    """

    def work(unit: Unit) -> Ending:
        ending = Ending(Outcome.COMPLETED, None, answer.finish_reason, None, MemoryEnding(MemoryOutcome.NONE))
        if not claim(unit, turn, ending, answer):
            raise TurnClaimed
        memory = _save_memory(unit, turn, answer, memory_enabled=memory_enabled, undo_hours=undo_hours)
        memory = replace(memory, retry_count=unit.tries - 1)
        unit.checkpoint()  # also for a statement that we cancelled ourselves: no slow database, but a cancelled turn
        if turn.regenerates_id is not None:
            _set_aside(unit, turn)
        ending = replace(ending, message_id=_store_answer(unit, turn, answer.text), memory=memory)
        if memory.outcome is not MemoryOutcome.NONE:
            unit.connection.execute(_NOTE, {"turn": turn.id, **_memory_columns(memory)})
        return ending

    return transaction(engine, work, owner=turn.owner, cancel=cancel)


# Built once: SQLAlchemy takes as long to build a statement as to run it.

_NOTE = sa.update(turns).where(turns.c.id == sa.bindparam("turn"))
_CLAIM = _NOTE.where(turns.c.outcome == Outcome.RUNNING).values(ended_at=sa.func.clock_timestamp())
_STORE_TEXT = (
    insert(messages).on_conflict_do_nothing(index_elements=["conversation_id", "place"]).returning(messages.c.id)
)
_TOUCH_CONVERSATION = (
    sa.update(conversations)
    .where(conversations.c.id == sa.bindparam("conversation"))
    .values(updated_at=sa.func.clock_timestamp())
)
_COUNT_TURN = (
    sa.update(owners)
    .where(owners.c.id == sa.bindparam("owner"))
    .values(turns_since_review=owners.c.turns_since_review + 1)
)


def claim(unit: Unit, turn: BegunTurn, ending: Ending, answer: Answer) -> bool:
    """End a running turn so; False when somebody else has ended it, and then nothing is changed."""
    columns = {
        "outcome": ending.outcome,
        "reason": ending.reason,
        "finish_reason": ending.finish_reason,
        "retry_at": ending.retry_at,
        **_memory_columns(ending.memory),
        **measured_columns(answer),
    }
    return unit.connection.execute(_CLAIM, {"turn": turn.id, **columns}).rowcount == 1


def _memory_columns(memory: MemoryEnding) -> dict[str, Any]:
    return {
        "memory_outcome": memory.outcome,
        "memory_reason": memory.reason,
        "memory_detail": memory.capacity.as_json() if memory.capacity else None,
    }


def measured_columns(answer: Answer) -> dict[str, Any]:
    """What was measured on the way, as the columns of ``turns``: numbers, names and codes, never words."""
    return {
        "model": answer.model,
        "fallback": answer.fallback,
        "tool_rounds": list(answer.tool_rounds),
        "first_token_ms": answer.first_token_ms,
        "input_tokens": answer.input_tokens,
        "output_tokens": answer.output_tokens,
    }


def store_text(unit: Unit, turn: BegunTurn, text: str) -> str | None:
    """Put the answer's text in its place in the log, once. Returns the message's id, None if the place is taken."""
    row = {
        "id": new_id("msg"),
        "owner_id": unit.locked_owner.id,
        "conversation_id": turn.conversation_id,
        "turn_id": turn.id,
        "place": turn.answer_place,
        "role": "assistant",
        "content": storable(text),
    }
    return unit.connection.execute(_STORE_TEXT, row).scalar()


def _save_memory(unit: Unit, turn: BegunTurn, answer: Answer, *, memory_enabled: bool, undo_hours: int) -> MemoryEnding:
    if turn.memory_status is MemoryStatus.OFF:
        return MemoryEnding(MemoryOutcome.OFF)
    if turn.memory_status is MemoryStatus.UNAVAILABLE:
        return MemoryEnding(MemoryOutcome.UNAVAILABLE, RefusalCode.MEMORY_UNAVAILABLE)
    if not answer.batches:
        return _nothing_staged(answer)
    if not memory_enabled or unit.locked_owner.memory_mode is not MemoryMode.AUTO:
        return MemoryEnding(MemoryOutcome.REFUSED, RefusalCode.MEMORY_OFF)
    try:
        with unit.connection.begin_nested() as savepoint:
            memory = _apply(unit, turn, answer, undo_hours)
            if memory.outcome is MemoryOutcome.UNCHANGED:
                savepoint.rollback()
            return memory
    except OperationRefused as refusal:
        return MemoryEnding(MemoryOutcome.REFUSED, refusal.code, capacity_of(refusal))
    except MemoryUnavailable:
        return MemoryEnding(MemoryOutcome.REFUSED, RefusalCode.MEMORY_UNAVAILABLE)
    except DBAPIError as error:
        if sqlstate(error) not in _GAVE_UP_WAITING:
            raise
        return MemoryEnding(MemoryOutcome.REFUSED, RefusalCode.STORAGE)


def _apply(unit: Unit, turn: BegunTurn, answer: Answer, undo_hours: int) -> MemoryEnding:
    if turn.undoes_receipt_id is not None:
        take_back(unit, turn.conversation_id, turn.question_place, turn.undo_batch, turn.undoes_receipt_id)
    committed = commit_batches(
        unit,
        answer.batches,
        actor=Actor.AGENT,
        turn_id=turn.id,
        conversation_id=turn.conversation_id,
        undo_hours=undo_hours,
        undoes_id=turn.undoes_receipt_id,
    )
    if committed is None:
        return MemoryEnding(MemoryOutcome.UNCHANGED)
    return MemoryEnding(
        MemoryOutcome.COMMITTED,
        receipt_id=committed.receipt_id,
        undo_until=committed.undo_until,
        changes=committed.changes,
        user_characters=usage(committed.after, Target.USER).used,
        memory_characters=usage(committed.after, Target.MEMORY).used,
    )


def _nothing_staged(answer: Answer) -> MemoryEnding:
    if answer.refused is None:
        return MemoryEnding(MemoryOutcome.NONE)
    return MemoryEnding(MemoryOutcome.REFUSED, answer.refused, answer.capacity)


def _store_answer(unit: Unit, turn: BegunTurn, text: str) -> str | None:
    message_id = store_text(unit, turn, text)
    unit.connection.execute(_TOUCH_CONVERSATION, {"conversation": turn.conversation_id})
    unit.connection.execute(_COUNT_TURN, {"owner": unit.locked_owner.id})
    return message_id


def _set_aside(unit: Unit, turn: BegunTurn) -> None:
    """A new answer has ended well: what stood from its question on is kept to be read, but out of the prompt."""
    earlier = sa.and_(
        turns.c.conversation_id == turn.conversation_id,
        turns.c.question_place >= turn.question_place,
        turns.c.id != turn.id,
    )
    unit.connection.execute(sa.update(turns).where(earlier).values(superseded=True))
    unit.connection.execute(
        sa.update(messages)
        .where(messages.c.conversation_id == turn.conversation_id, messages.c.place > turn.question_place)
        .values(active=False)
    )
