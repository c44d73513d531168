"""Capacity: judged once, at the end of a batch, for each document that the batch changed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.document import LIMITS, Snapshot, Target, count, render
from memory_core.operations import ENTRY_MAX_CHARS, Operation, apply_operations
from tests.memory_core.building import MEMORY, add, outcome, refusal, remove, replace
from tests.memory_core.strategies import LAWS, any_snapshots, batches


@pytest.mark.invariant("I08")
@pytest.mark.parametrize("target", list(Target))
def test_exactly_the_limit_fits_and_one_more_does_not(target: Target) -> None:
    """The limit counts the rendered document, separators included."""
    limit = LIMITS[target]
    one = "x" * (limit - 3 - 10)
    full = apply_operations(Snapshot(), [add(one, target), add("y" * 10, target)])
    assert count(full.of(target)) == limit
    refused = refusal(apply_operations, Snapshot(), [add(one, target), add("y" * 11, target)])
    assert (refused.code, refused.used, refused.needed, refused.limit) == ("capacity_exceeded", 0, limit + 1, limit)
    assert (refused.operation, refused.target) == (None, target)
    assert str(refused) == "the batch was refused: capacity_exceeded; nothing was changed"


@pytest.mark.invariant("I08")
@pytest.mark.parametrize("target", list(Target))
def test_a_full_document_is_consolidated_in_one_batch(target: Target) -> None:
    """Only the end is judged: the document may be too long in between, in either order of growing and shrinking."""
    limit = LIMITS[target]
    full = Snapshot().with_(target, ("x" * (limit - 13), "y" * 10))
    grown = [add("a new fact", target), replace("x", "x" * (limit - 26), target)]
    for batch in (grown, grown[::-1]):
        assert count(apply_operations(full, batch).of(target)) == limit
    assert refusal(apply_operations, full, grown[:1]).code == "capacity_exceeded"


@pytest.mark.invariant("I08")
@pytest.mark.parametrize("target", list(Target))
def test_a_document_over_its_limit_can_be_shrunk_and_not_grown(target: Target) -> None:
    """Smaller than before is accepted even while still too long; the same size or larger is not."""
    over = Snapshot().with_(target, ("x" * LIMITS[target], "y" * 10))
    smaller = apply_operations(over, [replace("y", "y" * 9, target)])
    assert count(smaller.of(target)) == LIMITS[target] + 12
    for content in ("z" * 10, "y" * 11):
        refused = refusal(apply_operations, over, [replace("y", content, target)])
        assert (refused.code, refused.used) == ("capacity_exceeded", LIMITS[target] + 13)


@pytest.mark.invariant("I08")
def test_a_document_over_its_limit_does_not_lock_the_other_one() -> None:
    """A document that a batch leaves alone is not judged."""
    over = Snapshot(user=("x" * 1400,), memory=("old",))
    assert apply_operations(over, [remove("old", MEMORY)]) == Snapshot(user=("x" * 1400,))
    assert apply_operations(over, [add("x" * 1400)]) == over


@pytest.mark.invariant("I10")
@LAWS
@given(any_snapshots, st.lists(batches, max_size=4))
def test_after_any_accepted_batch_a_changed_document_fits_or_is_smaller(
    snapshot: Snapshot, many: list[tuple[Operation, ...]]
) -> None:
    """Batch after batch: within the limit, smaller than it was, or untouched; and its size is its rendered length."""
    for batch in many:
        after = outcome(snapshot, batch) or snapshot
        for target in Target:
            used, was = count(after.of(target)), count(snapshot.of(target))
            assert used <= LIMITS[target] or used < was or after.of(target) == snapshot.of(target)
            assert used == len(render(after.of(target)))
        snapshot = after


@pytest.mark.invariant("I37")
@pytest.mark.parametrize("target", list(Target))
def test_an_entry_that_fits_nowhere_is_refused_before_it_is_looked_at(target: Target) -> None:
    """Screening takes time for each character, and a model can write megabytes: too long is too long."""
    before = Snapshot().with_(target, ("x" * 10,))
    endless = "\u200b" + "y" * ENTRY_MAX_CHARS
    for operation in (add(endless, target), replace("x", endless, target)):
        refused = refusal(apply_operations, before, [operation])
        assert (refused.code, refused.operation, refused.target) == ("capacity_exceeded", 0, target)
        assert (refused.used, refused.limit, refused.needed) == (10, LIMITS[target], 10 + len(endless))
    assert refusal(apply_operations, before, [add(endless[:ENTRY_MAX_CHARS], target)]).code == "entry_control"
