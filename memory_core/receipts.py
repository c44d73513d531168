"""Receipts as people meet them: what was saved, for how long it can be undone, undoing it, forgetting the words now.

A receipt's words are kept until its time to undo is over and no longer: no read shows them after that, a sweep deletes
them, and *Forget now* deletes them at once. What remains are counts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from memory_core.changes import (
    CAN_BE_UNDONE,
    NOW,
    WORDS_ARE_KEPT,
    Committed,
    changes_from_json,
    find_undoable,
    mark_change_undone,
)
from memory_core.database.rows import Record
from memory_core.database.tables import memory_changes, owners
from memory_core.database.transaction import Unit, transaction
from memory_core.document import Snapshot
from memory_core.errors import MemoryUnavailable, OperationRefused, ReceiptGone, RefusalCode
from memory_core.operations import Change, ensure_unchanged_since, inverse_operations, stands
from memory_core.owner import Actor, Owner
from memory_core.store import commit_batches, read_snapshot

__all__ = [
    "Committed",
    "Receipt",
    "find_latest_import",
    "find_receipts",
    "find_undoable_receipts",
    "forget_receipt",
    "mark_undone",
    "owner_of_receipt",
    "sweep_expired_undo",
    "undo_receipt",
]

_SWEEP_ROWS: Final = 500


@dataclass(frozen=True)
class Receipt:
    """One committed change. Sizes in code points; `changes` is empty once the words are no longer kept."""

    id: str
    actor: Actor
    turn_id: str | None
    conversation_id: str | None
    undoes_id: str | None
    added: int
    replaced: int
    removed: int
    user_before: int
    user_after: int
    memory_before: int
    memory_after: int
    changes: tuple[Change, ...] = field(repr=False)
    can_be_undone: bool
    undo_until: datetime | None
    undone_at: datetime | None
    created_at: datetime
    has_changed_since: bool = False

    def beside(self, snapshot: Snapshot | None) -> "Receipt":
        """The receipt as it is beside memory as it is now: what was changed since cannot be undone. Whether there is
        room for what comes back is judged at the undo.
        """
        if snapshot is None or not self.can_be_undone or all(stands(snapshot, change) for change in self.changes):
            return self
        return replace(self, can_be_undone=False, has_changed_since=True)


def find_receipts(
    connection: Connection,
    owner_id: str,
    *,
    receipt_ids: Iterable[str] = (),
    turn_ids: Iterable[str] = (),
    conversation_id: str | None = None,
) -> tuple[Receipt, ...]:
    """Receipts of this owner by their own ids, by those of their turns, or all of a conversation; oldest first."""
    wanted: list[sa.ColumnElement[bool]] = [
        memory_changes.c.id.in_(list(receipt_ids)),
        memory_changes.c.turn_id.in_(list(turn_ids)),
    ]
    if conversation_id is not None:
        wanted.append(memory_changes.c.conversation_id == conversation_id)
    rows = connection.execute(
        _receipts_of(owner_id).where(sa.or_(*wanted)).order_by(memory_changes.c.created_at, memory_changes.c.id)
    )
    return tuple(_receipt(row) for row in rows)


def find_undoable_receipts(connection: Connection, owner_id: str, *, limit: int) -> tuple[Receipt, ...]:
    """The last changes that can still be undone, whoever made them; newest first."""
    newest = (memory_changes.c.created_at.desc(), memory_changes.c.id.desc())
    rows = connection.execute(_receipts_of(owner_id).where(CAN_BE_UNDONE).order_by(*newest).limit(limit))
    return tuple(_receipt(row) for row in rows)


def find_latest_import(connection: Connection, owner_id: str) -> Receipt | None:
    """The last time that files were put in the place of memory, while that can be undone: the person is told."""
    latest = (
        sa.select(memory_changes.c.id)
        .where(memory_changes.c.owner_id == owner_id, memory_changes.c.actor == Actor.IMPORT, CAN_BE_UNDONE)
        .order_by(memory_changes.c.created_at.desc())
        .limit(1)
    )
    receipt_id = connection.execute(latest).scalar()
    return None if receipt_id is None else find_receipts(connection, owner_id, receipt_ids=[receipt_id])[0]


def owner_of_receipt(connection: Connection, person: Owner, receipt_id: str) -> Owner:
    """The same person as the owner of a receipt: with whatever agent it was. Raises ReceiptGone."""
    agent_id = connection.execute(
        sa.select(owners.c.agent_id)
        .join(memory_changes, memory_changes.c.owner_id == owners.c.id)
        .where(
            memory_changes.c.id == receipt_id,
            owners.c.organization_id == person.organization_id,
            owners.c.subject == person.subject,
        )
    ).scalar()
    if agent_id is None:
        raise ReceiptGone
    return replace(person, agent_id=agent_id)


def undo_receipt(unit: Unit, receipt_id: str) -> Committed:
    """Take a change back: its inverse, whole or not at all, judged by today's rules. Entries come back last.

    Its own receipt cannot be undone. Raises ReceiptGone (no such receipt of this owner, undone already, or its time is
    over); OperationRefused: `changed_since` if a touched entry is no longer as the change left it, or another rule.
    """
    owner = unit.locked_owner
    found = find_undoable(unit.connection, owner.id, memory_changes.c.id == receipt_id)
    if found is None:
        raise ReceiptGone
    _, changes = found
    ensure_unchanged_since(read_snapshot(unit.connection, owner.id), changes)
    committed = commit_batches(
        unit, [inverse_operations(changes)], actor=Actor.UNDO, undo_hours=0, undoes_id=receipt_id
    )
    if committed is None:
        raise OperationRefused(RefusalCode.CHANGED_SINCE)
    mark_undone(unit, receipt_id)
    return committed


def mark_undone(unit: Unit, receipt_id: str) -> None:
    """Note that a change has been taken back by another one of this transaction, as asking a question again does.

    Raises OperationRefused (`changed_since`) if it was undone before, or is gone.
    """
    mark_change_undone(unit.connection, unit.locked_owner.id, receipt_id)


def forget_receipt(unit: Unit, receipt_id: str) -> None:
    """*Forget now*: delete a receipt's words, and with them the way back. Safe to repeat. Raises ReceiptGone.

    The same words in other receipts go too where they are no longer stored: those could not be undone any more.
    """
    connection, owner_id = unit.connection, unit.locked_owner.id
    kept = connection.execute(
        sa.select(memory_changes.c.id, memory_changes.c.undo).where(memory_changes.c.owner_id == owner_id, _HAS_WORDS)
    ).all()
    words = {row.id: changes_from_json(row.undo) for row in kept}
    if receipt_id not in words and not find_receipts(connection, owner_id, receipt_ids=[receipt_id]):
        raise ReceiptGone
    unit.checkpoint()
    doomed = _spoken_for(words, words.get(receipt_id, ()), _stored(connection, owner_id))
    connection.execute(_without_words(memory_changes.c.id.in_([receipt_id, *doomed])))


def sweep_expired_undo(engine: Engine) -> int:
    """Delete the words of every receipt whose time to undo is over; returns how many. Waits for no one."""
    swept = 0
    while True:
        count = transaction(engine, _sweep_some)
        swept += count
        if count < _SWEEP_ROWS:
            return swept


_HAS_WORDS: Final = memory_changes.c.undo.is_not(None)


def _sweep_some(unit: Unit) -> int:
    over = (
        sa.select(memory_changes.c.id)
        .where(_HAS_WORDS, memory_changes.c.undo_until <= NOW)
        .limit(_SWEEP_ROWS)
        .with_for_update(skip_locked=True)
    )
    return unit.connection.execute(_without_words(memory_changes.c.id.in_(over))).rowcount


def _without_words(which: sa.ColumnElement[bool]) -> sa.Update:
    return sa.update(memory_changes).where(which).values(undo=sa.null())


def _spoken_for(words: dict[str, tuple[Change, ...]], forgotten: Sequence[Change], snapshot: Snapshot) -> list[str]:
    """Receipts that brought one of the forgotten words which is no longer stored."""
    gone = {
        (change.target, text)
        for change in forgotten
        for text in (change.before, change.after)
        if text is not None and text not in snapshot.of(change.target)
    }
    return [
        receipt_id
        for receipt_id, changes in words.items()
        if any((change.target, change.after) in gone for change in changes)
    ]


def _stored(connection: Connection, owner_id: str) -> Snapshot:
    try:
        return read_snapshot(connection, owner_id)
    except MemoryUnavailable:
        return Snapshot()


def _receipts_of(owner_id: str) -> sa.Select[Any]:
    """Receipts as they may be read: their words only while they are kept."""
    words = sa.case((WORDS_ARE_KEPT, memory_changes.c.undo), else_=None).label("words")
    told = (column for column in memory_changes.c if column.name != "undo")
    return sa.select(*told, words, CAN_BE_UNDONE.label("can_be_undone")).where(memory_changes.c.owner_id == owner_id)


def _receipt(row: Record) -> Receipt:
    return Receipt(
        id=row.id,
        actor=Actor(row.actor),
        turn_id=row.turn_id,
        conversation_id=row.conversation_id,
        undoes_id=row.undoes_id,
        added=row.added,
        replaced=row.replaced,
        removed=row.removed,
        user_before=row.user_before,
        user_after=row.user_after,
        memory_before=row.memory_before,
        memory_after=row.memory_after,
        changes=changes_from_json(row.words or ()),
        can_be_undone=bool(row.can_be_undone),
        undo_until=row.undo_until,
        undone_at=row.undone_at,
        created_at=row.created_at,
    )
