"""The people an agent knows, as those who run the deployment may see them: sizes, counts, modes and times.

What is remembered, and what was said, is never read here: a document's size is counted by the database, where its
rendered text is stored. Every statement names the organization.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memory_core.database.rows import Record
from memory_core.database.tables import agent_memory, agents, conversations, memory_changes, owners, turns
from memory_core.document import SCHEMA_VERSION, Target
from memory_core.owner import LearningMode, MemoryMode


@dataclass(frozen=True, slots=True)
class Subject:
    """Somebody an agent knows. A size is None where the document cannot be read by this release."""

    owner_id: str
    agent_id: str
    agent_name: str
    subject: str = field(repr=False)
    sizes: Mapping[Target, int | None]
    memory_mode: MemoryMode
    learning_mode: LearningMode
    seeded_at: datetime | None
    first_activity_at: datetime | None
    last_activity_at: datetime | None
    conversations: int


@dataclass(frozen=True, slots=True)
class Activity:
    """What hangs on one subject, in numbers."""

    turns: int
    changes: int
    created_at: datetime


def list_subjects(
    connection: Connection, organization_id: str, agent_id: str, *, prefix: str = "", limit: int = 50, after: str = ""
) -> tuple[Subject, ...]:
    """Those whom an agent knows and whose subject begins so, in the order of their subjects, letter by letter.

    ``after`` is the owner id of the last one listed before.
    """
    wanted = _SUBJECTS.where(owners.c.organization_id == organization_id, owners.c.agent_id == agent_id)
    if prefix:
        wanted = wanted.where(owners.c.subject.startswith(prefix, autoescape=True))
    if after:
        last = owners.alias("last")
        here = sa.and_(last.c.id == after, last.c.organization_id == organization_id, last.c.agent_id == agent_id)
        wanted = wanted.where(owners.c.subject > sa.select(last.c.subject).where(here).scalar_subquery())
    return tuple(map(_subject, connection.execute(wanted.order_by(owners.c.subject).limit(limit))))


def find_subject(connection: Connection, organization_id: str, owner_id: str) -> Subject | None:
    """Somebody by their owner id; None if there is nobody, or they are another organization's."""
    row = connection.execute(
        _SUBJECTS.where(owners.c.id == owner_id, owners.c.organization_id == organization_id)
    ).one_or_none()
    return None if row is None else _subject(row)


def find_owner_id(connection: Connection, organization_id: str, agent_id: str, subject: str) -> str | None:
    """The owner id of exactly this subject with this agent."""
    return connection.execute(
        sa.select(owners.c.id).where(
            owners.c.organization_id == organization_id, owners.c.agent_id == agent_id, owners.c.subject == subject
        )
    ).scalar()


def read_activity(connection: Connection, organization_id: str, owner_id: str) -> Activity:
    """How much hangs on one subject."""
    row = connection.execute(
        sa.select(
            owners.c.created_at,
            _count_of(turns).label("turns"),
            _count_of(memory_changes).label("changes"),
        ).where(owners.c.id == owner_id, owners.c.organization_id == organization_id)
    ).one()
    return Activity(row.turns, row.changes, row.created_at)


def subjects_of(connection: Connection, organization_id: str, owner_ids: Iterable[str]) -> dict[str, str]:
    """The subjects behind owner ids; those who were erased are left out."""
    rows = connection.execute(
        sa.select(owners.c.id, owners.c.subject).where(
            owners.c.id.in_(sorted(set(owner_ids))), owners.c.organization_id == organization_id
        )
    )
    return {row.id: row.subject for row in rows}


def _count_of(table: sa.Table) -> sa.ScalarSelect[Any]:
    return (
        sa.select(sa.func.count())
        .select_from(table)
        .where(table.c.owner_id == owners.c.id)
        .correlate(owners)
        .scalar_subquery()
    )


def _size_of(target: Target) -> sa.ColumnElement[Any]:
    """Code points of the rendered document as it is stored: -1 for one of a newer release, 0 where there is none."""
    size = sa.case(
        (agent_memory.c.schema_version > SCHEMA_VERSION, -1), else_=sa.func.char_length(agent_memory.c.content)
    )
    found = (
        sa.select(size)
        .where(agent_memory.c.user_id == owners.c.id, agent_memory.c.memory_type == target)
        .correlate(owners)
        .scalar_subquery()
    )
    return sa.func.coalesce(found, 0)


_SUBJECTS: Final = sa.select(
    owners.c.id,
    owners.c.agent_id,
    agents.c.name.label("agent_name"),
    owners.c.subject,
    owners.c.memory_mode,
    owners.c.learning_mode,
    owners.c.seeded_at,
    owners.c.first_activity_at,
    *(_size_of(target).label(f"{target}_size") for target in Target),
    _count_of(conversations).label("conversations"),
    sa.select(sa.func.max(conversations.c.updated_at))
    .where(conversations.c.owner_id == owners.c.id)
    .correlate(owners)
    .scalar_subquery()
    .label("last_activity_at"),
).join(agents, agents.c.id == owners.c.agent_id)


def _subject(row: Record) -> Subject:
    sizes = {target: getattr(row, f"{target}_size") for target in Target}
    return Subject(
        owner_id=row.id,
        agent_id=row.agent_id,
        agent_name=row.agent_name,
        subject=row.subject,
        sizes={target: None if size < 0 else size for target, size in sizes.items()},
        memory_mode=MemoryMode(row.memory_mode),
        learning_mode=LearningMode(row.learning_mode),
        seeded_at=row.seeded_at,
        first_activity_at=row.first_activity_at,
        last_activity_at=row.last_activity_at,
        conversations=row.conversations,
    )
