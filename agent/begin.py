"""The beginning of a turn: one transaction that puts the question and the running turn on record and reads memory.

Owner → conversation → turn is the order of locks here and everywhere. What is read here is what the prompt will hold; a
memory that cannot be read makes the turn begin all the same, with its status *unavailable*. SQL of the tables
``conversations``, ``messages`` and ``turns`` at the moment of beginning; no model, no web.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from agent.errors import (
    AgentNotFound,
    ConversationNotFound,
    KeyReused,
    MessageRefused,
    SessionEnded,
    TooManyTurns,
    TurnInProgress,
    TurnRepeated,
)
from agent.liveness import interrupt_silent
from agent.outcome import MemoryStatus, Outcome
from agent.regeneration import find_regenerated, inverse_of_answers, question_at
from agent.transcript import history, storable, title_of
from memory_core.database.rows import Record
from memory_core.database.tables import (
    agent_versions,
    agents,
    api_keys,
    conversations,
    messages,
    owners,
    turns,
    web_sessions,
)
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


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in a conversation the turn stands."""

    conversation_id: str
    is_new: bool
    title: str
    question: str
    question_place: int
    answer_place: int
    agent_version: int
    has_memory: bool


def _has_memory(version: sa.ColumnElement[int]) -> sa.Label[bool]:
    """Whether this version of the owner's agent has the memory tool; a switch that was never set is on."""
    switch = agent_versions.c.tools["memory"].as_boolean()
    this = sa.and_(agent_versions.c.agent_id == sa.bindparam("agent"), agent_versions.c.version == version)
    return sa.func.coalesce(
        sa.select(switch).where(this).correlate(agents, conversations).scalar_subquery(), True
    ).label("has_memory")


# Built once: SQLAlchemy takes as long to build a statement as to run it.

_TURNS_BEFORE = sa.select(
    turns.c.id,
    turns.c.conversation_id,
    turns.c.key_digest,
    turns.c.body_digest,
    turns.c.outcome,
    (turns.c.started_at < sa.func.clock_timestamp() - sa.cast(sa.bindparam("key_time"), sa.Interval)).label(
        "key_is_over"
    ),
).where(
    turns.c.owner_id == sa.bindparam("owner"),
    sa.or_(turns.c.key_digest == sa.bindparam("key"), turns.c.outcome == Outcome.RUNNING),
)
#: Held until the turn is on record: a sign-out, a revocation or an erasure is done before, and seen here, or comes
#: after, and sees the turn.
_LIVE_SESSION = (
    sa.select(web_sessions.c.id)
    .where(web_sessions.c.id == sa.bindparam("id"), web_sessions.c.revoked_at.is_(None))
    .with_for_update(read=True)
)
_LIVE_KEY = (
    sa.select(api_keys.c.id)
    .where(api_keys.c.id == sa.bindparam("id"), api_keys.c.revoked_at.is_(None))
    .with_for_update(read=True)
)
_TAKE_PLACES = (
    sa.update(conversations)
    .where(conversations.c.id == sa.bindparam("conversation"), conversations.c.owner_id == sa.bindparam("owner"))
    .values(
        next_place=conversations.c.next_place + sa.bindparam("taken"),
        updated_at=sa.func.clock_timestamp(),
        # One that was opened without a message takes its title from its first.
        title=sa.func.coalesce(sa.func.nullif(conversations.c.title, ""), sa.bindparam("first_title")),
    )
    .returning(
        conversations.c.id,
        conversations.c.title,
        conversations.c.agent_version,
        conversations.c.next_place,
        _has_memory(conversations.c.agent_version),
    )
)
_FIRST_ACTIVITY = (
    sa.update(owners)
    .where(owners.c.id == sa.bindparam("this"))
    .values(first_activity_at=sa.func.coalesce(owners.c.first_activity_at, sa.func.clock_timestamp()))
)
_CURRENT_AGENT = sa.select(agents.c.current_version, _has_memory(agents.c.current_version)).where(
    agents.c.id == sa.bindparam("agent"), agents.c.organization_id == sa.bindparam("organization")
)


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
    owner = unit.locked_owner
    _refuse_ended_session(unit, request)
    before = _turns_before(unit, owner, request)
    _refuse_repetition(unit, before, request)
    if before and interrupt_silent(unit.connection, request.process_id, owner_id=owner.id):
        before = _turns_before(unit, owner, request)
    earlier = find_regenerated(
        unit, request.conversation_id, request.regenerates_id, last_only=request.regenerates_last_only
    )
    place = (
        _new_place(unit, owner, request)
        if request.conversation_id is None
        else _next_place(unit, owner, request, earlier)
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


def key_digest(key: str) -> bytes:
    """What is kept of an idempotency key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _body_digest(request: TurnRequest) -> bytes:
    body = f"{request.conversation_id or ''}\0{request.regenerates_id or ''}\0{request.message}"
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).digest()


def _refuse_ended_session(unit: Unit, request: TurnRequest) -> None:
    """Who has signed out while this waited begins nothing any more: sign-out stops only what it finds running."""
    for live, proof in ((_LIVE_SESSION, request.session_id), (_LIVE_KEY, request.api_key_id)):
        if proof is not None and unit.connection.execute(live, {"id": proof}).first() is None:
            raise SessionEnded


def _turns_before(unit: Unit, owner: LockedOwner, request: TurnRequest) -> Sequence[Record]:
    """The turns that have a say in this one: that of the same key, if there is one, and those that run."""
    key_time = timedelta(hours=request.key_hours) if request.key_hours is not None else None
    given = {"owner": owner.id, "key": key_digest(request.key), "key_time": key_time}
    return unit.connection.execute(_TURNS_BEFORE, given).all()


def _refuse_repetition(unit: Unit, before: Sequence[Record], request: TurnRequest) -> None:
    digest = key_digest(request.key)
    for earlier in before:
        if bytes(earlier.key_digest) != digest:
            continue
        if earlier.key_is_over and earlier.outcome != Outcome.RUNNING:
            forgotten = key_digest(new_id("key"))
            unit.connection.execute(sa.update(turns).where(turns.c.id == earlier.id).values(key_digest=forgotten))
        elif bytes(earlier.body_digest) != _body_digest(request):
            raise KeyReused
        else:
            raise TurnRepeated(earlier.id, earlier.conversation_id)


def _new_place(unit: Unit, owner: LockedOwner, request: TurnRequest) -> _Place:
    title = title_of(request.message)
    made = open_conversation(unit, owner, title, next_place=3)
    return _Place(made.id, True, title, request.message, 1, 2, made.agent_version, made.has_memory)


@dataclass(frozen=True, slots=True)
class OpenedConversation:
    """A conversation that was just made; it keeps this version of its agent."""

    id: str
    agent_version: int
    has_memory: bool


def open_conversation(unit: Unit, owner: LockedOwner, title: str = "", *, next_place: int = 1) -> OpenedConversation:
    """A new conversation with the agent's current version. Raises ``AgentNotFound``."""
    wanted = {"agent": owner.agent_id, "organization": owner.organization_id}
    agent = unit.connection.execute(_CURRENT_AGENT, wanted).first()
    if agent is None:
        raise AgentNotFound
    conversation_id = new_id("cht")
    unit.connection.execute(
        sa.insert(conversations),
        {
            "id": conversation_id,
            "owner_id": owner.id,
            "agent_version": agent.current_version,
            "title": title,
            "next_place": next_place,
        },
    )
    if owner.first_activity_at is None:
        unit.connection.execute(_FIRST_ACTIVITY, {"this": owner.id})
    return OpenedConversation(conversation_id, agent.current_version, agent.has_memory)


def _next_place(unit: Unit, owner: LockedOwner, request: TurnRequest, earlier: Record | None) -> _Place:
    """Lock the conversation and take the next places in its log: two for a new question, one for a new answer."""
    given = {
        "conversation": storable(request.conversation_id or ""),
        "owner": owner.id,
        "agent": owner.agent_id,
        "taken": 2 if earlier is None else 1,
        "first_title": title_of(request.message),
    }
    row = unit.connection.execute(_TAKE_PLACES, given).first()
    if row is None:
        raise ConversationNotFound
    answer_place = row.next_place - 1
    if earlier is None:
        question, question_place = request.message, answer_place - 1
    else:
        question, question_place = question_at(unit, row.id, earlier.question_place), earlier.question_place
    return _Place(row.id, False, row.title, question, question_place, answer_place, row.agent_version, row.has_memory)


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


def _insert(unit: Unit, owner: LockedOwner, request: TurnRequest, place: _Place, status: MemoryStatus) -> str:
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
            "body_digest": _body_digest(request),
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
