"""The record of committed batches: rows of `memory_changes`, as they are written and as undo needs them.

A row says who changed memory, when, where and by how much. The words are in it only as long as the change can be
undone; every read here asks the database's clock whether that time is over.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memory_core.database.tables import memory_changes
from memory_core.document import Snapshot, Target, usage
from memory_core.errors import OperationRefused, RefusalCode
from memory_core.ids import new_id
from memory_core.operations import Change
from memory_core.owner import Actor

NOW = sa.func.clock_timestamp()
#: The words of a row are shown and used only then, whether or not a sweep has been there.
WORDS_ARE_KEPT = sa.and_(memory_changes.c.undo.is_not(None), memory_changes.c.undo_until > NOW)
CAN_BE_UNDONE = sa.and_(WORDS_ARE_KEPT, memory_changes.c.undone_at.is_(None))


@dataclass(frozen=True)
class Committed:
    """What one batch, or several in a row, really changed. `undo_until` None: it cannot be undone."""

    receipt_id: str
    changes: tuple[Change, ...] = field(repr=False)
    before: Snapshot = field(repr=False)
    after: Snapshot = field(repr=False)
    undo_until: datetime | None


@dataclass(frozen=True)
class Circumstances:
    """Who changed memory, on what occasion, and for how many hours it can be undone (0: not at all)."""

    actor: Actor
    undo_hours: int
    operation_count: int
    turn_id: str | None = None
    conversation_id: str | None = None
    undoes_id: str | None = None


def record_change(
    connection: Connection,
    owner_id: str,
    done: Circumstances,
    changes: Sequence[Change],
    before: Snapshot,
    after: Snapshot,
) -> Committed:
    """Write the receipt of a change."""
    receipt_id = new_id("rcp")
    kinds = Counter(change.kind for change in changes)
    is_undoable = done.undo_hours > 0
    undo_until = connection.execute(
        sa.insert(memory_changes)
        .values(
            id=receipt_id,
            owner_id=owner_id,
            actor=done.actor,
            turn_id=done.turn_id,
            conversation_id=done.conversation_id,
            undoes_id=done.undoes_id,
            operation_count=done.operation_count,
            added=kinds["added"],
            replaced=kinds["replaced"],
            removed=kinds["removed"],
            user_before=usage(before, Target.USER).used,
            user_after=usage(after, Target.USER).used,
            memory_before=usage(before, Target.MEMORY).used,
            memory_after=usage(after, Target.MEMORY).used,
            undo=_to_json(changes) if is_undoable else None,
            undo_until=NOW + timedelta(hours=done.undo_hours) if is_undoable else None,
        )
        .returning(memory_changes.c.undo_until)
    ).scalar_one()
    return Committed(receipt_id, tuple(changes), before, after, undo_until)


def find_undoable(
    connection: Connection, owner_id: str, *which: sa.ColumnElement[bool]
) -> tuple[str, tuple[Change, ...]] | None:
    """The receipt of this owner that fits and can still be undone, with its words."""
    row = connection.execute(
        sa.select(memory_changes.c.id, memory_changes.c.undo).where(
            memory_changes.c.owner_id == owner_id, CAN_BE_UNDONE, *which
        )
    ).one_or_none()
    return None if row is None else (row.id, changes_from_json(row.undo))


def mark_change_undone(connection: Connection, owner_id: str, receipt_id: str) -> None:
    """Under the owner's lock: one winner. Raises OperationRefused (`changed_since`) when somebody was first."""
    marked = connection.execute(
        sa.update(memory_changes)
        .where(
            memory_changes.c.id == receipt_id,
            memory_changes.c.owner_id == owner_id,
            memory_changes.c.undone_at.is_(None),
        )
        .values(undone_at=NOW)
    )
    if marked.rowcount != 1:
        raise OperationRefused(RefusalCode.CHANGED_SINCE)


def changes_from_json(stored: Sequence[dict[str, Any]]) -> tuple[Change, ...]:
    """The words of a row."""
    return tuple(Change(Target(change["target"]), change["before"], change["after"]) for change in stored)


def _to_json(changes: Sequence[Change]) -> list[dict[str, Any]]:
    return [{"target": change.target, "before": change.before, "after": change.after} for change in changes]
