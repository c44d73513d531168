"""The other ends of a turn: stopped, interrupted, failed. The text so far is kept and marked; memory is not touched.

Ending a turn is a claim like committing it (``running → …``), so a stop and a commit at the same moment have one
winner. Attaching the partial text never changes an outcome that somebody else has claimed.
"""

from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from agent.begin import BegunTurn
from agent.commit import Answer, claim, measured_columns, store_text
from agent.errors import TurnNotFound
from agent.idempotency import key_digest
from agent.outcome import Ending, MemoryEnding, MemoryOutcome, Outcome, Reason
from agent.transcript import ending_of
from memory_core.database.tables import owners, turns, web_sessions
from memory_core.database.transaction import Unit, transaction
from memory_core.errors import OwnerGone
from memory_core.owner import Owner

#: The channel on which processes tell each other that a turn was ended. Its payload is the turn's id.
CHANNEL = "remembrancer_turns"


@dataclass(frozen=True, slots=True)
class Stopped:
    """What became of a request to stop: the turn it named, and its outcome now."""

    turn_id: str
    conversation_id: str
    outcome: Outcome


def discard_turn(engine: Engine, turn: BegunTurn, ending: Ending, partial: Answer, *, keep_text: bool = True) -> Ending:
    """End a turn that did not end well and keep the text it has. Returns the truth, which may be somebody else's claim.

    Safe to repeat. An erased person's turn leaves nothing and is reported as failed (``erased``).
    """
    try:
        return transaction(
            engine, lambda unit: _discard(unit, turn, ending, partial, keep_text=keep_text), owner=turn.owner
        )
    except OwnerGone:
        return replace(ending, outcome=Outcome.FAILED, reason=Reason.ERASED, memory=MemoryEnding(MemoryOutcome.NONE))


def _discard(unit: Unit, turn: BegunTurn, ending: Ending, partial: Answer, *, keep_text: bool) -> Ending:
    truth = ending if claim(unit, turn, ending, partial) else _attach(unit, turn, ending, partial)
    is_gone = truth.reason is Reason.ERASED  # its conversation was deleted: there is no place for the text
    if truth.outcome is Outcome.COMPLETED or is_gone or not keep_text or not partial.text.strip():
        return truth
    return replace(truth, message_id=store_text(unit, turn, partial.text) or truth.message_id)


def _attach(unit: Unit, turn: BegunTurn, ending: Ending, partial: Answer) -> Ending:
    """Somebody else ended this turn: add what only its runner knows, and report what stands."""
    truth = ending_of(unit.connection, turn.id)
    if truth is None:
        return replace(ending, outcome=Outcome.FAILED, reason=Reason.ERASED, memory=MemoryEnding(MemoryOutcome.NONE))
    if truth.outcome is Outcome.COMPLETED:
        return truth
    memory = ending.memory
    if memory.outcome is MemoryOutcome.DISCARDED:
        memory = replace(memory, reason=MemoryEnding.discarded(truth.outcome, truth.reason).reason)
    unit.connection.execute(
        sa.update(turns)
        .where(turns.c.id == turn.id)
        .values(memory_outcome=memory.outcome, memory_reason=memory.reason, **measured_columns(partial))
    )
    return replace(truth, memory=memory)


def stop_turn(engine: Engine, owner: Owner, key: str) -> Stopped:
    """A person's Stop, by the idempotency key of the message (it names the turn before its id is known).

    Claims ``running → stopped`` and tells every process. A turn that has ended already is left as it is.
    Raises ``TurnNotFound`` for a key this person has not used, with whatever agent.
    """

    def work(unit: Unit) -> Stopped:
        theirs = sa.select(owners.c.id).where(
            owners.c.organization_id == owner.organization_id, owners.c.subject == owner.subject
        )
        this = sa.and_(turns.c.owner_id.in_(theirs), turns.c.key_digest == key_digest(key))
        _stop(unit, this)
        row = unit.connection.execute(
            sa.select(turns.c.id, turns.c.conversation_id, turns.c.outcome).where(this)
        ).first()
        if row is None:
            raise TurnNotFound
        return Stopped(row.id, row.conversation_id, Outcome(row.outcome))

    return transaction(engine, work)


def stop_session(engine: Engine, session_id: str) -> tuple[str, ...]:
    """Sign-out, or a revoked session: every turn it runs is stopped. Returns their ids."""
    return transaction(engine, lambda unit: _stop(unit, turns.c.session_id == session_id))


def stop_api_key(engine: Engine, key_id: str) -> tuple[str, ...]:
    """A revoked API key: every turn that was begun with it is stopped. Returns their ids."""
    return transaction(engine, lambda unit: _stop(unit, turns.c.api_key_id == key_id))


def stop_conversation(engine: Engine, conversation_id: str) -> tuple[str, ...]:
    """Stop the turn that runs in a conversation, if one does. Returns its id."""
    return transaction(engine, lambda unit: _stop(unit, turns.c.conversation_id == conversation_id))


def stop_turns_of(engine: Engine, owner: Owner) -> tuple[str, ...]:
    """Stop everything that runs for an owner, or in a session of theirs. Returns the ids of the turns."""
    sessions = sa.select(web_sessions.c.id).where(
        web_sessions.c.organization_id == owner.organization_id, web_sessions.c.subject == owner.subject
    )
    theirs = sa.or_(turns.c.owner_id == _id_of(owner), turns.c.session_id.in_(sessions))
    return transaction(engine, lambda unit: _stop(unit, theirs))


def _id_of(owner: Owner) -> sa.ScalarSelect[str]:
    return (
        sa.select(owners.c.id)
        .where(
            owners.c.organization_id == owner.organization_id,
            owners.c.agent_id == owner.agent_id,
            owners.c.subject == owner.subject,
        )
        .scalar_subquery()
    )


def _stop(unit: Unit, which: sa.ColumnElement[bool]) -> tuple[str, ...]:
    stopped = (
        unit.connection.execute(
            sa.update(turns)
            .where(turns.c.outcome == Outcome.RUNNING, which)
            .values(outcome=Outcome.STOPPED, ended_at=sa.func.clock_timestamp())
            .returning(turns.c.id)
        )
        .scalars()
        .all()
    )
    for turn_id in stopped:
        unit.connection.execute(sa.select(sa.func.pg_notify(CHANNEL, turn_id)))
    return tuple(stopped)
