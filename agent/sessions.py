"""Sessions: conversations as an organization's programs open, list and delete them. The same rows as a person's chats.

Everything names the organization: another organization's session, message or turn is *not found*. SQL of
``conversations`` and ``messages`` for those who know no person; what a person reads is in ``transcript``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from agent.errors import ConversationNotFound, TurnNotFound
from agent.outcome import MemoryOutcome, Outcome
from agent.places import open_conversation
from agent.transcript import TurnRecord, find_turn, storable
from memory_core.database.rows import Record
from memory_core.database.tables import conversations, messages, owners, turns
from memory_core.database.transaction import Unit
from memory_core.document import Target
from memory_core.owner import Owner
from memory_core.receipts import find_receipts


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation and whose it is."""

    id: str
    owner: Owner
    agent_version: int
    title: str = field(repr=False)
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class SessionMessage:
    """One message. ``active`` False: an answer that was written again since."""

    id: str
    turn_id: str
    place: int
    role: str
    content: str = field(repr=False)
    active: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class SessionTurn:
    """A turn and where it belongs. ``targets`` counts what its receipt changed; None when the receipt tells no more."""

    record: TurnRecord
    session_id: str
    agent_version: int
    undo_until: datetime | None
    targets: Mapping[Target, int] | None


def open_session(unit: Unit) -> Session:
    """A new session of the owner whom this transaction locked. Raises AgentNotFound."""
    owner = unit.locked_owner
    made = open_conversation(unit, owner)
    return find_session(unit.connection, owner.organization_id, made.id)


def find_session(connection: Connection, organization_id: str, session_id: str) -> Session:
    """A session of this organization. Raises ConversationNotFound."""
    row = connection.execute(_SESSIONS.where(*_is(organization_id, session_id))).first()
    if row is None:
        raise ConversationNotFound
    return _session(row)


def list_sessions(
    connection: Connection,
    organization_id: str,
    *,
    agent_id: str | None = None,
    subject: str | None = None,
    limit: int,
    after: tuple[datetime, str] | None = None,
) -> tuple[Session, ...]:
    """The organization's sessions, of one agent or subject if named, the newest first; those after a time and an id."""
    wanted = _SESSIONS.where(owners.c.organization_id == organization_id)
    if agent_id is not None:
        wanted = wanted.where(owners.c.agent_id == storable(agent_id))
    if subject is not None:
        wanted = wanted.where(owners.c.subject == subject)
    if after is not None:
        created_at, last_id = after
        same_time = sa.and_(conversations.c.created_at == created_at, conversations.c.id > last_id)
        wanted = wanted.where(sa.or_(conversations.c.created_at < created_at, same_time))
    rows = connection.execute(wanted.order_by(conversations.c.created_at.desc(), conversations.c.id).limit(limit))
    return tuple(_session(row) for row in rows)


def rename_session(unit: Unit, organization_id: str, session_id: str, title: str) -> Session:
    """Give a session another title; its place in lists stays. Raises ConversationNotFound."""
    find_session(unit.connection, organization_id, session_id)
    unit.connection.execute(sa.update(conversations).where(conversations.c.id == session_id).values(title=title))
    return find_session(unit.connection, organization_id, session_id)


def delete_session(unit: Unit, session_id: str) -> tuple[str, ...]:
    """Delete a session of the owner whom this transaction locked, with its messages and turns; memory stays.

    Returns the ids of turns that were still running: whoever runs them has nothing left to store. Raises
    ConversationNotFound.
    """
    this = sa.and_(turns.c.conversation_id == session_id, turns.c.owner_id == unit.locked_owner.id)
    running = unit.connection.execute(sa.select(turns.c.id).where(this, turns.c.outcome == Outcome.RUNNING)).scalars()
    ids = tuple(running)
    unit.checkpoint()
    deleted = unit.connection.execute(
        sa.delete(conversations).where(
            conversations.c.id == session_id, conversations.c.owner_id == unit.locked_owner.id
        )
    )
    if deleted.rowcount != 1:
        raise ConversationNotFound
    return ids


def list_session_messages(
    connection: Connection, organization_id: str, session_id: str, *, limit: int, after: int | None = None
) -> tuple[SessionMessage, ...]:
    """A session's messages in order, those after a place. Raises ConversationNotFound."""
    session = find_session(connection, organization_id, session_id)
    rows = connection.execute(
        sa.select(messages)
        .where(messages.c.conversation_id == session.id, messages.c.place > (after or 0))
        .order_by(messages.c.place)
        .limit(limit)
    )
    return tuple(
        SessionMessage(row.id, row.turn_id, row.place, row.role, row.content, row.active, row.created_at)
        for row in rows
    )


def find_session_turn(connection: Connection, organization_id: str, turn_id: str) -> SessionTurn:
    """A turn of this organization, and what is still told of its memory change. Raises TurnNotFound."""
    found = find_turn(connection, organization_id, turn_id)
    if found is None:
        raise TurnNotFound
    undo_until: datetime | None = None
    targets: dict[Target, int] | None = dict.fromkeys(Target, 0)
    if found.record.ending.memory.outcome is MemoryOutcome.COMMITTED:
        receipts = find_receipts(connection, found.owner_id, turn_ids=[found.record.id])
        changes = [change.target for receipt in receipts for change in receipt.changes]
        undo_until = next((receipt.undo_until for receipt in receipts if receipt.can_be_undone), None)
        targets = {target: changes.count(target) for target in Target} if changes else None
    return SessionTurn(found.record, found.conversation_id, found.agent_version, undo_until, targets)


_SESSIONS: Final[sa.Select[Any]] = sa.select(
    conversations.c.id,
    conversations.c.agent_version,
    conversations.c.title,
    conversations.c.created_at,
    conversations.c.updated_at,
    owners.c.organization_id,
    owners.c.agent_id,
    owners.c.subject,
).join(owners, owners.c.id == conversations.c.owner_id)


def _is(organization_id: str, session_id: str) -> tuple[sa.ColumnElement[bool], ...]:
    return (owners.c.organization_id == organization_id, conversations.c.id == storable(session_id))


def _session(row: Record) -> Session:
    owner = Owner(row.organization_id, row.agent_id, row.subject)
    return Session(row.id, owner, row.agent_version, row.title, row.created_at, row.updated_at)
