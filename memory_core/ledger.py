"""MemoryLedger: what one request has staged and nobody has saved yet.

Belongs to exactly one turn and dies with it. It holds the batches in order, because the commit re-applies them to
whatever is stored by then (DESIGN §5). A refused batch leaves no trace in it. Knows no database and no identity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from memory_core.document import Snapshot, Target
from memory_core.operations import Change, Operation, apply_operations, trace_batches


@dataclass
class MemoryLedger:
    """`base` is memory as it was loaded; `snapshot` is the base with everything staged applied to it."""

    base: Snapshot
    snapshot: Snapshot = field(init=False)
    batches: list[tuple[Operation, ...]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.snapshot = self.base

    @property
    def is_empty(self) -> bool:
        """Whether nothing was staged; a staged batch that changes nothing counts as staged."""
        return not self.batches

    @property
    def operation_count(self) -> int:
        """Operations in all batches together."""
        return sum(map(len, self.batches))

    @property
    def targets(self) -> dict[Target, int]:
        """Operations staged for each document, 0 included."""
        staged = Counter(operation.target for batch in self.batches for operation in batch)
        return {target: staged[target] for target in Target}

    @property
    def changes(self) -> tuple[Change, ...]:
        """What the commit would change, net, if nobody else has written meanwhile."""
        return trace_batches(self.base, self.batches)[1]


def stage_operations(ledger: MemoryLedger, operations: Sequence[Operation]) -> Snapshot:
    """Stage one batch and give the snapshot with it. Raises OperationRefused; then the ledger is as it was."""
    updated = apply_operations(ledger.snapshot, operations)
    ledger.batches.append(tuple(operations))
    ledger.snapshot = updated
    return updated
