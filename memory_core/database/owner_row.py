"""The owner's row: the first thing a writer locks, and what it says of a person.

READ COMMITTED and this lock first: different people never wait for each other, one person's writers take turns.
What else is theirs is read in a later statement, which then sees what the writer before has committed.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from memory_core.database.tables import agents, organizations, owners
from memory_core.errors import OwnerGone
from memory_core.ids import new_id
from memory_core.owner import LearningMode, MemoryMode, Owner

_CREATE_ROUNDS: Final = 3


@dataclass(frozen=True)
class LockedOwner:
    """The owner's row, as it was when this transaction locked it."""

    id: str
    organization_id: str
    agent_id: str
    subject: str = field(repr=False)
    version: int
    memory_mode: MemoryMode
    learning_mode: LearningMode
    first_activity_at: datetime | None
    seeded_at: datetime | None
    digest_key: bytes = field(repr=False)


def find_owner(connection: Connection, organization_id: str, owner_id: str) -> Owner | None:
    """Whose row this is; None if there is none (or it is another organization's). Takes no lock."""
    row = connection.execute(
        sa.select(owners.c.agent_id, owners.c.subject).where(
            owners.c.id == owner_id, owners.c.organization_id == organization_id
        )
    ).first()
    return None if row is None else Owner(organization_id, row.agent_id, row.subject)


_THIS_OWNER: Final = (
    sa.select(
        owners.c.id,
        owners.c.organization_id,
        owners.c.agent_id,
        owners.c.subject,
        owners.c.version,
        owners.c.memory_mode,
        owners.c.learning_mode,
        owners.c.first_activity_at,
        owners.c.seeded_at,
        organizations.c.digest_key,
    )
    .join(organizations, organizations.c.id == owners.c.organization_id)
    .where(
        owners.c.organization_id == sa.bindparam("organization_id"),
        owners.c.agent_id == sa.bindparam("agent_id"),
        owners.c.subject == sa.bindparam("subject"),
    )
)
_LOCK: Final = _THIS_OWNER.with_for_update(of=owners, key_share=True)
_LOCK_TO_ERASE: Final = _THIS_OWNER.with_for_update(of=owners)
#: Nobody comes into being with another organization's agent.
_CREATE: Final = (
    insert(owners)
    .from_select(
        ["id", "organization_id", "agent_id", "subject"],
        sa.select(
            sa.bindparam("id", type_=sa.String),
            agents.c.organization_id,
            agents.c.id,
            sa.bindparam("subject", type_=sa.String),
        ).where(agents.c.id == sa.bindparam("agent_id"), agents.c.organization_id == sa.bindparam("organization_id")),
    )
    .on_conflict_do_nothing(constraint="uq_owners_key")
)


def lock_owner(connection: Connection, owner: Owner, *, create: bool, erase: bool) -> LockedOwner:
    """Lock the row; if it is to be created, whoever comes first creates it. Raises OwnerGone, also for an agent that is
    not this organization's.
    """
    lock = _LOCK_TO_ERASE if erase else _LOCK
    key = {"organization_id": owner.organization_id, "agent_id": owner.agent_id, "subject": owner.subject}
    row = connection.execute(lock, key).one_or_none()
    # Found, as a rule. More than one round only if the owner is erased at the very moment of coming back.
    for _ in range(_CREATE_ROUNDS if create else 0):
        if row is not None:
            break
        connection.execute(_CREATE, {"id": new_id("own"), **key})
        row = connection.execute(lock, key).one_or_none()
    if row is None:
        raise OwnerGone
    known = {
        **row._mapping,
        "memory_mode": MemoryMode(row.memory_mode),
        "learning_mode": LearningMode(row.learning_mode),
        "digest_key": bytes(row.digest_key),
    }
    return LockedOwner(**known)
