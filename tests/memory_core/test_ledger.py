"""The ledger: what one request has staged, and what a refused batch does to it (nothing)."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.document import Snapshot, Target
from memory_core.ledger import MemoryLedger, stage_operations
from memory_core.operations import Action, Change, Operation, apply_operations, trace_batches
from tests.memory_core.building import outcome, refusal
from tests.memory_core.strategies import LAWS, batches, snapshots

TEA = Operation(Target.USER, Action.ADD, content="Likes tea")
MILK = Operation(Target.USER, Action.REPLACE, "tea", "Likes tea with milk")
TABS = Operation(Target.MEMORY, Action.ADD, content="Uses tabs")


@pytest.mark.invariant("I07")
@LAWS
@given(snapshots, st.lists(batches, max_size=5))
def test_a_ledger_holds_exactly_the_batches_that_were_accepted(
    snapshot: Snapshot, many: list[tuple[Operation, ...]]
) -> None:
    """Staging is applying; a refused batch leaves the ledger equal to a copy made before it, in every field."""
    ledger, now = MemoryLedger(snapshot), snapshot
    for batch in many:
        before = copy.deepcopy(ledger)
        after = outcome(now, batch)
        if after is None:
            expected, refused = refusal(apply_operations, now, batch), refusal(stage_operations, ledger, batch)
            assert (refused.code, refused.operation) == (expected.code, expected.operation)
            assert ledger == before
        else:
            now = after
            assert stage_operations(ledger, list(batch)) == ledger.snapshot == now
            assert ledger.batches == [*before.batches, batch]
    assert ledger.base == snapshot
    assert trace_batches(ledger.base, ledger.batches) == (ledger.snapshot, ledger.changes)


def test_a_new_ledger_is_empty_and_stands_at_its_base() -> None:
    """Nothing staged, nothing counted, nothing changed."""
    ledger = MemoryLedger(Snapshot(user=("a",)))
    assert ledger.is_empty
    assert ledger.snapshot == ledger.base == Snapshot(user=("a",))
    assert (ledger.operation_count, ledger.targets, ledger.changes) == (0, {"user": 0, "memory": 0}, ())


def test_a_ledger_counts_operations_by_document_and_changes_net() -> None:
    """Three operations in two batches, two documents, one net change in each."""
    ledger = MemoryLedger(Snapshot())
    stage_operations(ledger, [TEA, TABS])
    stage_operations(ledger, [MILK])
    assert not ledger.is_empty
    assert (ledger.operation_count, ledger.targets) == (3, {"user": 2, "memory": 1})
    changes = (Change(Target.USER, None, "Likes tea with milk"), Change(Target.MEMORY, None, "Uses tabs"))
    assert ledger.changes == changes


def test_a_staged_batch_that_changes_nothing_is_staged_all_the_same() -> None:
    """By the time of the commit it may change something, because somebody else has written."""
    ledger = MemoryLedger(Snapshot(user=("Likes tea",)))
    stage_operations(ledger, [TEA])
    assert not ledger.is_empty
    assert ledger.changes == ()


def test_two_ledgers_share_nothing() -> None:
    """Staging in one request never shows in another that began from the same snapshot."""
    base = Snapshot()
    one, other = MemoryLedger(base), MemoryLedger(base)
    stage_operations(one, [TEA])
    assert other == MemoryLedger(Snapshot())
    assert base == Snapshot()
