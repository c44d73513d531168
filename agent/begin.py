"""The beginning of a turn: one transaction that puts the question and the running turn on record and reads memory.

Owner → conversation → turn is the order of locks here and everywhere. What is read here is what the prompt will hold; a
memory that cannot be read makes the turn begin all the same, with its status *unavailable*. No model, no web.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from agent.errors import AgentNotFound, MessageRefused, TooManyTurns, TurnInProgress
from agent.idempotency import body_digest, key_digest, refuse_repetition, turns_before
from agent.liveness import interrupt_silent
from agent.outcome import MemoryStatus, Outcome
from agent.places import Place, first_place, next_place
from agent.proof import hold_proof
from agent.regeneration import find_regenerated, inverse_of_answers
from agent.transcript import history, storable
from memory_core.database.rows import Record
from memory_core.database.tables import messages, turns
from memory_core.database.transaction import Cancellation, LockedOwner, Unit, is_transient, transaction
from memory_core.document import Snapshot
from memory_core.errors import MemoryUnavailable, OwnerGone
from memory_core.ids import new_id
from memory_core.operations import Operation
from memory_core.owner import MemoryMode, Owner
from memory_core.store import read_snapshot


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What a person (or an application for them) asks for. ``conversation_id`` None opens a new conversation.

    ``key`` is the idempotency key: the same key of the same owner is the same turn. ``regenerates_id`` names the turn
    whose question is asked again; ``message`` is then ignored, and what was said after it is set aside, unless
    ``regenerates_last_only`` refuses that: a page that does not show it must not take it away. ``memory_enabled`` is
    the deployment's flag. ``session_id`` or ``api_key_id`` is what proved the owner; the turn dies with it.
    ``key_hours``: for so long the key is the same turn; without it, for ever. ``turn_id`` is chosen before anything is
    stored, so that the process can answer for the turn from its first moment.
    """

    owner: Owner
    message: str = field(repr=False)
    key: str
    process_id: str
    policy_version: str
    memory_enabled: bool
    conversation_id: str | None = None
    regenerates_id: str | None = None
    regenerates_last_only: bool = False
    session_id: str | None = None
    api_key_id: str | None = None
    turns_at_once: int = 3
    history_tokens: int = 24_000
    key_hours: int | None = None
    turn_id: str = field(default_factory=lambda: new_id("trn"))

    @property
    def body_digest(self) -> bytes:
        """What is kept of the message, to know it again."""
        return body_digest(self.conversation_id, self.regenerates_id, self.message)


@dataclass(frozen=True, slots=True)
class BegunTurn:
    """A running turn as the database holds it, and what its prompt is made of.

    ``snapshot`` is None when memory is off or unavailable. ``undo_batch`` and ``undoes_receipt_id`` are set when a
    regenerated answer's own memory change can still be taken back: its inverse is then the first batch of the ledger.
    """

    id: str
    owner: Owner
    conversation_id: str
    conversation_is_new: bool
    title: str = field(repr=False)
    question: str = field(repr=False)
    question_place: int
    answer_place: int
    agent_version: int
    policy_version: str
    memory_status: MemoryStatus
    snapshot: Snapshot | None = field(repr=False)
    history: tuple[Mapping[str, str], ...] = field(repr=False)
    session_id: str | None = None
    regenerates_id: str | None = None
    undo_batch: tuple[Operation, ...] = field(default=(), repr=False)
    undoes_receipt_id: str | None = None


def begin_turn(engine: Engine, request: TurnRequest, cancel: Cancellation | None = None) -> BegunTurn:
    """Put a turn on record as *running* and read what it needs.

    Raises ``TurnRepeated`` when the key has been used for the same message (the earlier turn is the answer),
    ``KeyReused`` when for another, ``SessionEnded``, ``ConversationNotFound``, ``ConversationWentOn``,
    ``TurnNotFound``, ``TurnInProgress``, ``TooManyTurns``, ``MessageRefused``, ``StorageFailed``;
    ``TransactionCancelled`` leaves nothing.
    """
    if request.regenerates_id is None:
        ensure_sayable(request.message)

    def begin(*, readable: bool) -> BegunTurn:
        return transaction(
            engine,
            lambda unit: _begin(unit, request, readable=readable),
            owner=request.owner,
            create_owner=True,
            cancel=cancel,
        )

    try:
        return begin(readable=True)
    except _Unreadable:
        return begin(readable=False)
    except OwnerGone:
        raise AgentNotFound from None  # an owner would have been made, if the organization had such an agent


def ensure_sayable(message: str) -> None:
    """Raise ``MessageRefused`` for a message that is empty, or that PostgreSQL cannot keep as it is."""
    if not message.strip():
        raise MessageRefused("empty")
    if storable(message) != message:
        raise MessageRefused("control")


def _begin(unit: Unit, request: TurnRequest, *, readable: bool) -> BegunTurn:
    owner, key = unit.locked_owner, key_digest(request.key)
    hold_proof(unit, session_id=request.session_id, api_key_id=request.api_key_id)
    before = turns_before(unit, owner.id, key, request.key_hours)
    refuse_repetition(unit, before, key, request.body_digest)
    if before and interrupt_silent(unit.connection, request.process_id, owner_id=owner.id):
        before = turns_before(unit, owner.id, key, request.key_hours)
    earlier = find_regenerated(
        unit, request.conversation_id, request.regenerates_id, last_only=request.regenerates_last_only
    )
    place = (
        first_place(unit, owner, request.message)
        if request.conversation_id is None
        else next_place(unit, owner, request.conversation_id, request.message, earlier)
    )
    _refuse_crowd(before, place.conversation_id, request.turns_at_once)
    enabled = request.memory_enabled and place.has_memory
    status, snapshot = _read_memory(unit, owner, enabled=enabled, readable=readable)
    undo_batch, undoes = inverse_of_answers(unit, earlier, snapshot)
    unit.checkpoint()
    turn_id = _insert(unit, owner, request, place, status)
    return BegunTurn(
        id=turn_id,
        owner=request.owner,
        conversation_id=place.conversation_id,
        conversation_is_new=place.is_new,
        title=place.title,
        question=place.question,
        question_place=place.question_place,
        answer_place=place.answer_place,
        agent_version=place.agent_version,
        policy_version=request.policy_version,
        memory_status=status,
        snapshot=snapshot,
        history=()
        if place.is_new
        else history(
            unit.connection, place.conversation_id, before=place.question_place, tokens=request.history_tokens
        ),
        session_id=request.session_id,
        regenerates_id=request.regenerates_id,
        undo_batch=undo_batch,
        undoes_receipt_id=undoes,
    )


def _refuse_crowd(before: Sequence[Record], conversation_id: str, at_once: int) -> None:
    # One that had this key long ago may be among them, and has ended.
    running = [turn for turn in before if turn.outcome == Outcome.RUNNING]
    if any(turn.conversation_id == conversation_id for turn in running):
        raise TurnInProgress
    if len(running) >= at_once:
        raise TooManyTurns(at_once)


def _read_memory(
    unit: Unit, owner: LockedOwner, *, enabled: bool, readable: bool
) -> tuple[MemoryStatus, Snapshot | None]:
    """Fail open: whatever keeps memory from being read, short of a cancel or a lost connection, is *unavailable*.

    A statement that failed has spoiled its transaction; ``_Unreadable`` asks for another one, which reads no memory.
    """
    if not enabled or owner.memory_mode is MemoryMode.OFF:
        return MemoryStatus.OFF, None
    if not readable:
        return MemoryStatus.UNAVAILABLE, None
    try:
        return MemoryStatus.AVAILABLE, read_snapshot(unit.connection, owner.id)
    except MemoryUnavailable:
        return MemoryStatus.UNAVAILABLE, None
    except DBAPIError as error:
        if error.connection_invalidated or is_transient(error):
            raise
        unit.checkpoint()
    raise _Unreadable


class _Unreadable(Exception):
    """Memory could not be read; the turn begins without it, in a transaction of its own."""


def _insert(unit: Unit, owner: LockedOwner, request: TurnRequest, place: Place, status: MemoryStatus) -> str:
    turn_id = request.turn_id
    unit.connection.execute(
        sa.insert(turns),
        {
            "id": turn_id,
            "owner_id": owner.id,
            "conversation_id": place.conversation_id,
            "process_id": request.process_id,
            "session_id": request.session_id,
            "api_key_id": request.api_key_id,
            "key_digest": key_digest(request.key),
            "body_digest": request.body_digest,
            "question_place": place.question_place,
            "answer_place": place.answer_place,
            "regenerates_id": request.regenerates_id,
            "agent_version": place.agent_version,
            "policy_version": request.policy_version,
            "memory_status": status,
        },
    )
    if request.regenerates_id is None:
        unit.connection.execute(
            sa.insert(messages),
            {
                "id": new_id("msg"),
                "owner_id": owner.id,
                "conversation_id": place.conversation_id,
                "turn_id": turn_id,
                "place": place.question_place,
                "role": "user",
                "content": place.question,
            },
        )
    return turn_id
