"""The two documents in the database: read whole, changed under their owner's lock, and only through the rules.

Every write re-reads what is stored, applies its batches to that, and keeps documents, receipt, origins and tombstones
in one transaction. Content that this release cannot read is never written over. The other nouns have modules of their
own: `changes` (receipts as rows), `receipts` (as people meet them), `origins`, `tombstones`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hmac import compare_digest
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from memory_core.changes import NOW, Circumstances, Committed, find_undoable, record_change
from memory_core.database.rows import Record
from memory_core.database.tables import agent_memory, memory_changes, organizations, owners
from memory_core.database.transaction import LockedOwner, Unit
from memory_core.document import SCHEMA_VERSION, Snapshot, Target, entry_digest, parse, render
from memory_core.errors import MemoryUnavailable, OperationRefused, RefusalCode, UnavailableReason
from memory_core.operations import Action, Change, Operation, trace_batches
from memory_core.origins import write_origins
from memory_core.owner import Actor, LearningMode, MemoryMode, Owner
from memory_core.tombstones import bury, refuse_buried, settle_tombstones

#: Whose changes count as the person having been here. Seeding asks for that.
_ACTIVE = frozenset({Actor.AGENT, Actor.PERSON, Actor.UNDO, Actor.APPROVAL})

_DOCUMENTS: Final = sa.select(agent_memory.c.memory_type, agent_memory.c.content, agent_memory.c.schema_version).where(
    agent_memory.c.user_id == sa.bindparam("owner_id")
)
#: One row a document; one with an empty document where there is none; one without an owner where there is nobody.
_VIEW: Final = (
    sa.select(
        organizations.c.digest_key,
        owners.c.id,
        owners.c.memory_mode,
        owners.c.learning_mode,
        agent_memory.c.memory_type,
        agent_memory.c.content,
        agent_memory.c.schema_version,
        agent_memory.c.updated_at,
    )
    .select_from(organizations)
    .outerjoin(
        owners,
        sa.and_(
            owners.c.organization_id == organizations.c.id,
            owners.c.agent_id == sa.bindparam("agent_id"),
            owners.c.subject == sa.bindparam("subject"),
        ),
    )
    .outerjoin(agent_memory, agent_memory.c.user_id == owners.c.id)
    .where(organizations.c.id == sa.bindparam("organization_id"))
)


@dataclass(frozen=True)
class MemoryView:
    """One owner's memory as it is read for a page or a prompt.

    `owner_id` None: nobody by that name is stored yet. `snapshot` None: memory cannot be read, for `unavailable`.
    `updated_at` None: both documents are empty.
    """

    owner_id: str | None
    snapshot: Snapshot | None = field(repr=False)
    memory_mode: MemoryMode
    learning_mode: LearningMode
    updated_at: datetime | None
    digest_key: bytes = field(repr=False)
    unavailable: UnavailableReason | None = None

    @property
    def status(self) -> str:
        """ "available" or "unavailable"."""
        return "available" if self.unavailable is None else "unavailable"


def read_snapshot(connection: Connection, owner_id: str) -> Snapshot:
    """Both documents as they are stored. Raises MemoryUnavailable if either cannot be read."""
    return _parse(connection.execute(_DOCUMENTS, {"owner_id": owner_id}).all())


def load_memory(connection: Connection, owner: Owner) -> MemoryView:
    """Memory and modes of one moment, in one statement; makes no owner and takes no lock."""
    key = {"organization_id": owner.organization_id, "agent_id": owner.agent_id, "subject": owner.subject}
    rows = connection.execute(_VIEW, key).all()
    if not rows:
        return MemoryView(None, Snapshot(), MemoryMode.AUTO, LearningMode.AUTO, None, b"")
    documents = [row for row in rows if row.memory_type is not None]
    snapshot, unavailable = None, None
    try:
        snapshot = _parse(documents)
    except MemoryUnavailable as error:
        unavailable = error.reason
    return MemoryView(
        owner_id=rows[0].id,
        snapshot=snapshot,
        memory_mode=MemoryMode(rows[0].memory_mode or MemoryMode.AUTO),
        learning_mode=LearningMode(rows[0].learning_mode or LearningMode.AUTO),
        updated_at=max((row.updated_at for row in documents), default=None),
        digest_key=bytes(rows[0].digest_key),
        unavailable=unavailable,
    )


def commit_batches(
    unit: Unit,
    batches: Sequence[Sequence[Operation]],
    *,
    actor: Actor,
    undo_hours: int,
    turn_id: str | None = None,
    conversation_id: str | None = None,
    undoes_id: str | None = None,
) -> Committed | None:
    """Apply batches, one after the other, to what is stored now. None: they change nothing, and nothing was written.

    `undo_hours` 0 keeps no words. Raises OperationRefused, MemoryUnavailable, TransactionCancelled; the caller's
    transaction (or savepoint) then takes back what little was done.
    """
    owner = unit.locked_owner
    before = read_snapshot(unit.connection, owner.id)
    after, changes = trace_batches(before, batches)
    if not changes:
        return None
    if actor is Actor.REVIEW:
        refuse_buried(unit.connection, owner, changes)
    unit.checkpoint()
    done = Circumstances(actor, undo_hours, sum(map(len, batches)), turn_id, conversation_id, undoes_id)
    _write_documents(unit.connection, owner.id, before, after)
    committed = record_change(unit.connection, owner.id, done, changes, before, after)
    if actor is not Actor.UNDO:
        write_origins(unit.connection, owner, committed.receipt_id, changes)
    has_removed = settle_tombstones(unit.connection, owner, changes)
    _touch_owner(unit.connection, owner, is_active=actor in _ACTIVE, has_removed=has_removed)
    return committed


def change_entry(
    unit: Unit,
    target: Target,
    digest: bytes,
    content: str | None,
    *,
    undo_hours: int,
    actor: Actor = Actor.PERSON,
) -> Committed | None:
    """Edit (or, with no content, remove) the whole entry that has this digest, wherever it stands now.

    Raises OperationRefused: `changed_since` if no entry has it any more; else as `commit_batches`.
    """
    owner = unit.locked_owner
    for text in read_snapshot(unit.connection, owner.id).of(target):
        if compare_digest(entry_digest(owner.digest_key, target, text), digest):
            action = Action.REMOVE if content is None else Action.REPLACE
            operation = Operation(target, action, match=text, content=content)
            return commit_batches(unit, [[operation]], actor=actor, undo_hours=undo_hours)
    raise OperationRefused(RefusalCode.CHANGED_SINCE, target=target)


def undoable_changes(unit: Unit, turn_id: str) -> tuple[str, tuple[Change, ...]] | None:
    """The receipt of a turn's own change and what it changed, while that can be undone (for asking it again)."""
    return find_undoable(unit.connection, unit.locked_owner.id, memory_changes.c.turn_id == turn_id)


def forget_everything(unit: Unit) -> int:
    """Empty both documents and every receipt, words and origins with them; returns how many entries went.

    What stays are keyed digests, so that no review learns it again, and the mark that somebody was here. Memory that
    cannot be read is forgotten like any other: this deletes, it does not write over.
    """
    connection, owner = unit.connection, unit.locked_owner
    try:
        snapshot = read_snapshot(connection, owner.id)
    except MemoryUnavailable:
        snapshot = Snapshot()
    entries = [(target, text) for target in Target for text in snapshot.of(target)]
    unit.checkpoint()
    bury(connection, owner, entries)
    connection.execute(sa.delete(agent_memory).where(agent_memory.c.user_id == owner.id))
    connection.execute(sa.delete(memory_changes).where(memory_changes.c.owner_id == owner.id))
    _touch_owner(connection, owner, is_active=True, has_removed=True)
    return len(entries)


def set_modes(unit: Unit, *, memory_mode: MemoryMode | None = None, learning_mode: LearningMode | None = None) -> None:
    """Change how a person's memory is used; None leaves a mode as it is. No activity: seeding stays possible."""
    wanted = {"memory_mode": memory_mode, "learning_mode": learning_mode}
    values = {name: mode for name, mode in wanted.items() if mode is not None}
    if values:
        unit.checkpoint()
        unit.connection.execute(sa.update(owners).where(owners.c.id == unit.locked_owner.id).values(**values))


def _parse(documents: Sequence[Record]) -> Snapshot:
    snapshot = Snapshot()
    for row in documents:
        snapshot = snapshot.with_(Target(row.memory_type), parse(row.content, row.schema_version))
    return snapshot


def _write_documents(connection: Connection, owner_id: str, before: Snapshot, after: Snapshot) -> None:
    """Write the documents that changed. A document without entries has no row."""
    for target in Target:
        entries = after.of(target)
        if entries == before.of(target):
            continue
        if entries:
            new = insert(agent_memory).values(
                user_id=owner_id, memory_type=target, content=render(entries), schema_version=SCHEMA_VERSION
            )
            connection.execute(
                new.on_conflict_do_update(
                    index_elements=[agent_memory.c.user_id, agent_memory.c.memory_type],
                    set_={
                        "content": new.excluded.content,
                        "schema_version": new.excluded.schema_version,
                        "updated_at": NOW,
                    },
                )
            )
        else:
            connection.execute(
                sa.delete(agent_memory).where(agent_memory.c.user_id == owner_id, agent_memory.c.memory_type == target)
            )


def _touch_owner(connection: Connection, owner: LockedOwner, *, is_active: bool, has_removed: bool) -> None:
    """A new version. After a removal the review forgets what it has read: none of it may bring the words back."""
    values: dict[str, Any] = {"version": owners.c.version + 1}
    if is_active:
        values["first_activity_at"] = sa.func.coalesce(owners.c.first_activity_at, NOW)
    if has_removed:
        values |= {"review_watermark": NOW, "turns_since_review": 0}
    connection.execute(sa.update(owners).where(owners.c.id == owner.id).values(**values))
