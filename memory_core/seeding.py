"""Seeding: what an application knows already, written as a person's memory before the first word. Create-only.

The owner's row decides, under its lock: a seed and a first message at the same moment have one winner. Whatever was
there before counts, memory and activity alike, also memory that was forgotten. Signing in and reading are none.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import sqlalchemy as sa

from memory_core.changes import NOW, Committed
from memory_core.database.tables import agent_memory, owners
from memory_core.database.transaction import Unit
from memory_core.document import LIMITS, SEPARATOR, Target
from memory_core.errors import AlreadyInitialized, OperationRefused, RefusalCode
from memory_core.operations import Action, Operation
from memory_core.owner import Actor
from memory_core.store import commit_batches

#: More entries than this fit into no document, however short they are.
MAX_ENTRIES: Final[Mapping[Target, int]] = {
    target: (limit + len(SEPARATOR)) // (1 + len(SEPARATOR)) for target, limit in LIMITS.items()
}


def seed_memory(unit: Unit, entries: Mapping[Target, Sequence[str]], *, actor: Actor = Actor.OPERATOR) -> Committed:
    """Write the beginning of this owner's memory, whole or not at all. Its receipt cannot be undone.

    Raises AlreadyInitialized; OperationRefused by the same rules as every write, its `operation` being the index of the
    entry within its document; `batch_size` for a document without end, or for no entry at all.
    """
    owner = unit.locked_owner
    if owner.seeded_at is not None or owner.first_activity_at is not None or _has_memory(unit, owner.id):
        raise AlreadyInitialized
    refuse_too_many(entries)
    placed = [(target, index, text) for target, texts in entries.items() for index, text in enumerate(texts)]
    batch = [Operation(target, Action.ADD, content=text) for target, _, text in placed]
    try:
        committed = commit_batches(unit, [batch], actor=actor, undo_hours=0)
    except OperationRefused as refusal:
        if refusal.operation is not None:
            refusal.target, refusal.operation = placed[refusal.operation][:2]
        raise
    if committed is None:
        raise OperationRefused(RefusalCode.BATCH_SIZE, limit=sum(MAX_ENTRIES.values()), needed=0)
    mark_begun(unit)
    return committed


def mark_begun(unit: Unit) -> None:
    """From now on this owner has had a beginning, whatever becomes of it."""
    begun = sa.func.coalesce(owners.c.seeded_at, NOW)
    unit.connection.execute(sa.update(owners).where(owners.c.id == unit.locked_owner.id).values(seeded_at=begun))


def refuse_too_many(entries: Mapping[Target, Sequence[str]]) -> None:
    """Raise OperationRefused (`batch_size`) for more entries than can fit, before any of them is looked at."""
    for target, texts in entries.items():
        if len(texts) > MAX_ENTRIES[target]:
            raise OperationRefused(RefusalCode.BATCH_SIZE, target=target, limit=MAX_ENTRIES[target], needed=len(texts))


def _has_memory(unit: Unit, owner_id: str) -> bool:
    return bool(unit.connection.execute(sa.select(sa.exists().where(agent_memory.c.user_id == owner_id))).scalar())
