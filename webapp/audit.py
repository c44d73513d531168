"""The audit log: who did what as an operator, with a key, or on the command line. Ids, numbers and codes; never words.

It is written in the transaction of what it tells of. Of an erased person nothing is left in it but that somebody was
erased. SQL of ``audit_log``.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memory_core.database.tables import audit_log


class ActorKind(StrEnum):
    """How somebody acted."""

    OPERATOR = "operator"
    KEY = "key"
    COMMAND = "command"


class Action(StrEnum):
    """What was done."""

    AGENT_CREATED = "agent_created"
    AGENT_CHANGED = "agent_changed"
    MEMORY_SEEDED = "memory_seeded"
    MEMORY_READ = "memory_read"
    MEMORY_IMPORTED = "memory_imported"
    MEMORY_REPLACED = "memory_replaced"
    MEMORY_EXPORTED = "memory_exported"
    SUBJECT_ERASED = "subject_erased"
    SESSION_DELETED = "session_deleted"
    KEY_CREATED = "key_created"
    KEY_REVOKED = "key_revoked"


@dataclass(frozen=True, slots=True)
class Auditor:
    """Who acts, and for which organization. ``name`` is an operator's subject, a key's id, or None."""

    organization_id: str
    kind: ActorKind
    name: str | None = field(default=None, repr=False)

    def record(
        self,
        connection: Connection,
        action: Action,
        *,
        agent_id: str | None = None,
        owner_id: str | None = None,
        **detail: Any,
    ) -> int:
        """Write a line; returns its id. ``detail`` holds ids, numbers and codes."""
        written = sa.insert(audit_log).values(
            organization_id=self.organization_id,
            actor_kind=self.kind,
            actor=self.name,
            action=action,
            agent_id=agent_id,
            owner_id=owner_id,
            detail=detail,
        )
        line: int = connection.execute(written.returning(audit_log.c.id)).scalar_one()
        return line

    def record_erasure(self, connection: Connection, agent_id: str, subject: str) -> int:
        """Write that somebody was erased, and let go of their name where they acted themselves as an operator: what
        they did stays, that it was they does not.
        """
        connection.execute(
            sa.update(audit_log)
            .where(
                audit_log.c.organization_id == self.organization_id,
                audit_log.c.actor_kind == ActorKind.OPERATOR,
                audit_log.c.actor == subject,
            )
            .values(actor=None)
        )
        by_themselves = self.kind is ActorKind.OPERATOR and self.name == subject
        auditor = replace(self, name=None) if by_themselves else self
        return auditor.record(connection, Action.SUBJECT_ERASED, agent_id=agent_id)


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """A line of the log. ``owner_id`` None: about nobody, or about somebody who has been erased since."""

    id: int
    at: datetime
    actor_kind: ActorKind
    actor: str | None = field(repr=False)
    action: Action
    agent_id: str | None
    owner_id: str | None
    detail: dict[str, Any]


def list_audit(
    connection: Connection, organization_id: str, *, limit: int = 50, before: int | None = None
) -> tuple[AuditRecord, ...]:
    """The log of an organization, the newest line first; those before the line ``before``."""
    older = [audit_log.c.id < before] if before is not None else []
    rows = connection.execute(
        sa.select(audit_log)
        .where(audit_log.c.organization_id == organization_id, *older)
        .order_by(audit_log.c.id.desc())
        .limit(limit)
    )
    return tuple(
        AuditRecord(
            id=row.id,
            at=row.at,
            actor_kind=ActorKind(row.actor_kind),
            actor=row.actor,
            action=Action(row.action),
            agent_id=row.agent_id,
            owner_id=row.owner_id,
            detail=row.detail,
        )
        for row in rows
    )
