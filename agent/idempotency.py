"""The same key is the same turn: what is kept of keys, and what becomes of a message that comes a second time.

Only digests are kept, in the row of the turn. SQL of ``turns``: those that have a say when another one begins.
"""

import hashlib
from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa

from agent.errors import KeyReused, TurnRepeated
from agent.outcome import Outcome
from memory_core.database.rows import Record
from memory_core.database.tables import turns
from memory_core.database.transaction import Unit
from memory_core.ids import new_id

_IS_OVER = turns.c.started_at < sa.func.clock_timestamp() - sa.cast(sa.bindparam("key_time"), sa.Interval)
_TURNS_BEFORE = sa.select(
    turns.c.id,
    turns.c.conversation_id,
    turns.c.key_digest,
    turns.c.body_digest,
    turns.c.outcome,
    _IS_OVER.label("key_is_over"),
).where(
    turns.c.owner_id == sa.bindparam("owner"),
    sa.or_(turns.c.key_digest == sa.bindparam("key"), turns.c.outcome == Outcome.RUNNING),
)


def key_digest(key: str) -> bytes:
    """What is kept of an idempotency key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def body_digest(*parts: str | None) -> bytes:
    """What is kept of a message and of where it was sent."""
    return hashlib.sha256("\0".join(part or "" for part in parts).encode("utf-8", "surrogatepass")).digest()


def turns_before(unit: Unit, owner_id: str, key: bytes, key_hours: int | None) -> Sequence[Record]:
    """The turns that have a say in a new one: that of the same key, if there is one, and those that run."""
    key_time = timedelta(hours=key_hours) if key_hours is not None else None
    return unit.connection.execute(_TURNS_BEFORE, {"owner": owner_id, "key": key, "key_time": key_time}).all()


def refuse_repetition(unit: Unit, before: Sequence[Record], key: bytes, body: bytes) -> None:
    """Raise ``TurnRepeated`` when the key was used for the same message, ``KeyReused`` when for another.

    A key whose time is over is taken from the turn that had it, if that has ended.
    """
    for earlier in before:
        if bytes(earlier.key_digest) != key:
            continue
        if earlier.key_is_over and earlier.outcome != Outcome.RUNNING:
            forgotten = key_digest(new_id("key"))
            unit.connection.execute(sa.update(turns).where(turns.c.id == earlier.id).values(key_digest=forgotten))
        elif bytes(earlier.body_digest) != body:
            raise KeyReused
        else:
            raise TurnRepeated(earlier.id, earlier.conversation_id)
