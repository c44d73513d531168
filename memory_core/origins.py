"""Where an entry came from: keyed digests of what each change brought, never its words.

An entry that was edited is followed back, change by change, to the one that first wrote it. Undoing brings an entry
back as it was, so it leaves no origin of its own: what is restored has the origin it always had.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memory_core.database.rows import Record
from memory_core.database.tables import SCHEMA, memory_origins
from memory_core.database.transaction import LockedOwner
from memory_core.document import entry_digest
from memory_core.operations import Change
from memory_core.owner import Actor


@dataclass(frozen=True)
class Provenance:
    """One change: by whom, when, and in which conversation and turn (which may have been deleted since)."""

    actor: Actor
    at: datetime
    conversation_id: str | None
    turn_id: str | None


@dataclass(frozen=True)
class Origin:
    """Who wrote an entry, and who edited it last, if anybody did."""

    written: Provenance
    edited: Provenance | None


# From the newest row of each digest back along previous_digest. Within one change no text both comes and goes (a change
# is net), so the next older row of a text is always its earlier life.
_CHAINS: Final = sa.text(
    f"""
    WITH RECURSIVE chain AS (
        SELECT wanted.digest AS asked, 0 AS steps, newest.id, newest.change_id, newest.previous_digest
          FROM unnest(CAST(:digests AS bytea[])) AS wanted (digest)
         CROSS JOIN LATERAL (
               SELECT id, change_id, previous_digest FROM {SCHEMA}.memory_origins
                WHERE owner_id = :owner_id AND digest = wanted.digest
                ORDER BY id DESC LIMIT 1) AS newest
        UNION ALL
        SELECT chain.asked, chain.steps + 1, earlier.id, earlier.change_id, earlier.previous_digest
          FROM chain
         CROSS JOIN LATERAL (
               SELECT id, change_id, previous_digest FROM {SCHEMA}.memory_origins
                WHERE owner_id = :owner_id AND digest = chain.previous_digest
                  AND id < chain.id
                ORDER BY id DESC LIMIT 1) AS earlier
    )
    SELECT asked, steps, previous_digest IS NOT NULL AS is_edit, actor, created_at, conversation_id, turn_id
      FROM chain JOIN {SCHEMA}.memory_changes ON memory_changes.id = chain.change_id
     ORDER BY asked, steps
    """
)


def write_origins(connection: Connection, owner: LockedOwner, receipt_id: str, changes: Sequence[Change]) -> None:
    """Note what a change brought, and from what."""
    found = [
        {
            "owner_id": owner.id,
            "change_id": receipt_id,
            "digest": entry_digest(owner.digest_key, change.target, change.after),
            "previous_digest": change.before and entry_digest(owner.digest_key, change.target, change.before),
        }
        for change in changes
        if change.after is not None
    ]
    if found:
        connection.execute(sa.insert(memory_origins), found)


def origin_of(connection: Connection, owner_id: str, digest: bytes) -> Origin | None:
    """The origin of one entry, None if its change is not on record."""
    return origins_of(connection, owner_id, [digest]).get(digest)


def origins_of(connection: Connection, owner_id: str, digests: Iterable[bytes]) -> Mapping[bytes, Origin]:
    """The origins of entries, by digest; those that are not on record are left out."""
    rows = connection.execute(_CHAINS, {"digests": list(digests), "owner_id": owner_id})
    chains: dict[bytes, list[Record]] = {}
    for row in rows:
        chains.setdefault(bytes(row.asked), []).append(row)
    return {digest: _origin(chain) for digest, chain in chains.items()}


def _origin(chain: Sequence[Record]) -> Origin:
    newest, oldest = chain[0], chain[-1]
    return Origin(_provenance(oldest), _provenance(newest) if newest.is_edit else None)


def _provenance(row: Record) -> Provenance:
    return Provenance(Actor(row.actor), row.created_at, row.conversation_id, row.turn_id)
