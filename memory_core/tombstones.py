"""What a person let go of: keyed digests, never words, so that nobody brings it back behind their back.

A removal leaves one; so does the old text of an edit, and an addition that was undone. It goes when the words come
back by somebody's will: the person says them again, approves them, or undoes the removal. A background review has no
will of its own, so to it a tombstone is a wall, in whichever of the two documents the words once stood.
"""

from collections.abc import Iterable, Sequence

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from memory_core.database.tables import memory_tombstones
from memory_core.database.transaction import LockedOwner
from memory_core.document import Target, entry_digest
from memory_core.errors import OperationRefused, RefusalCode
from memory_core.operations import Change


def settle_tombstones(connection: Connection, owner: LockedOwner, changes: Sequence[Change]) -> bool:
    """Bury what went and clear what came; returns whether anything went."""
    gone = [(change.target, change.before) for change in changes if change.before is not None]
    bury(connection, owner, gone)
    came = _digests_in_both(owner, changes)
    if came:
        connection.execute(sa.delete(memory_tombstones).where(_is_one_of(owner, came)))
    return bool(gone)


def bury(connection: Connection, owner: LockedOwner, entries: Iterable[tuple[Target, str]]) -> None:
    """Leave a tombstone for each entry."""
    graves = [
        {"owner_id": owner.id, "digest": entry_digest(owner.digest_key, target, text)} for target, text in entries
    ]
    if graves:
        connection.execute(insert(memory_tombstones).on_conflict_do_nothing(), graves)


def refuse_buried(connection: Connection, owner: LockedOwner, changes: Sequence[Change]) -> None:
    """Raises OperationRefused (`changed_since`) if a change would bring back what was let go."""
    came = _digests_in_both(owner, changes)
    if came and connection.execute(sa.select(sa.exists().where(_is_one_of(owner, came)))).scalar():
        raise OperationRefused(RefusalCode.CHANGED_SINCE)


def _digests_in_both(owner: LockedOwner, changes: Sequence[Change]) -> list[bytes]:
    """Of what came, as if it stood in either document."""
    return [
        entry_digest(owner.digest_key, target, change.after)
        for change in changes
        if change.after is not None
        for target in Target
    ]


def _is_one_of(owner: LockedOwner, digests: Sequence[bytes]) -> sa.ColumnElement[bool]:
    return sa.and_(memory_tombstones.c.owner_id == owner.id, memory_tombstones.c.digest.in_(digests))
