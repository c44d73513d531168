"""One person's stored memory, as store tests speak of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from memory_core.changes import Committed
from memory_core.database.tables import agent_memory, memory_changes, memory_tombstones, owners
from memory_core.database.transaction import LockedOwner, Unit, transaction
from memory_core.document import Snapshot, Target, entry_digest
from memory_core.operations import Operation
from memory_core.owner import Actor, Owner
from memory_core.receipts import Receipt, find_receipts, undo_receipt
from memory_core.store import commit_batches, read_snapshot
from tests.database import OrganizationForTests, rows

T = TypeVar("T")


@dataclass
class Keeper:
    """Commits for one owner, and looks at what is stored from outside."""

    engine: Engine
    organization: OrganizationForTests
    subject: str = "ada"
    undo_hours: int = 24
    owner: Owner = field(init=False)
    id: str = field(init=False)

    def __post_init__(self) -> None:
        self.owner = self.organization.owner(self.subject)
        self.id = transaction(self.engine, lambda unit: unit.locked_owner.id, owner=self.owner, create_owner=True)

    def do(self, work: Callable[[Unit], T]) -> T:
        """Any work, with the owner locked."""
        return transaction(self.engine, work, owner=self.owner)

    def commit(
        self,
        *operations: Operation,
        actor: Actor = Actor.PERSON,
        turn_id: str | None = None,
        conversation_id: str | None = None,
    ) -> Committed | None:
        """One batch."""
        return self.do(
            lambda unit: commit_batches(
                unit,
                [operations],
                actor=actor,
                undo_hours=self.undo_hours,
                turn_id=turn_id,
                conversation_id=conversation_id,
            )
        )

    def saved(self, *operations: Operation, **options: Any) -> Committed:
        """One batch that changes something."""
        committed = self.commit(*operations, **options)
        assert committed is not None
        return committed

    def undo(self, receipt_id: str) -> Committed:
        return self.do(lambda unit: undo_receipt(unit, receipt_id))

    @property
    def snapshot(self) -> Snapshot:
        with self.engine.connect() as connection:
            return read_snapshot(connection, self.id)

    @property
    def row(self) -> LockedOwner:
        return self.do(lambda unit: unit.locked_owner)

    @property
    def tombstones(self) -> set[bytes]:
        found = rows(self.engine, sa.select(memory_tombstones.c.digest).where(memory_tombstones.c.owner_id == self.id))
        return {bytes(row["digest"]) for row in found}

    def digest(self, text: str, target: Target = Target.USER) -> bytes:
        return entry_digest(self.organization.digest_key, target, text)

    def receipt(self, receipt_id: str) -> Receipt | None:
        with self.engine.connect() as connection:
            return next(iter(find_receipts(connection, self.id, receipt_ids=[receipt_id])), None)

    def expire(self, receipt_ids: Sequence[str]) -> None:
        """Let the time to undo these be over, as if a day had passed."""
        past = sa.func.clock_timestamp() - sa.text("interval '1 second'")
        with self.engine.begin() as connection:
            connection.execute(
                sa.update(memory_changes).where(memory_changes.c.id.in_(receipt_ids)).values(undo_until=past)
            )

    def review_counter(self) -> tuple[int, bool]:
        """Turns since the last review, and whether a watermark stands."""
        asked = sa.select(owners.c.turns_since_review, owners.c.review_watermark).where(owners.c.id == self.id)
        row = rows(self.engine, asked)[0]
        return row["turns_since_review"], row["review_watermark"] is not None

    def make_unreadable(self, *, schema_version: int = 1, content: str = "a\n§\n§\nb") -> None:
        """Store something this release cannot read, as an accident or a newer release would."""
        with self.engine.begin() as connection:
            connection.execute(sa.delete(agent_memory).where(agent_memory.c.user_id == self.id))
            connection.execute(
                sa.insert(agent_memory).values(
                    user_id=self.id, memory_type="memory", content=content, schema_version=schema_version
                )
            )

    def stored_bytes(self) -> list[tuple[str, str, int]]:
        found = rows(self.engine, sa.select(agent_memory).where(agent_memory.c.user_id == self.id))
        return sorted((row["memory_type"], row["content"], row["schema_version"]) for row in found)


def receipts(keeper: Keeper) -> list[dict[str, Any]]:
    """The rows of memory_changes, oldest first."""
    mine = sa.select(memory_changes).where(memory_changes.c.owner_id == keeper.id)
    return rows(keeper.engine, mine.order_by(memory_changes.c.created_at))
