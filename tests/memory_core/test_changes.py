"""What a batch really changed, and the batch that takes it back."""

from collections import Counter

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from memory_core.document import LIMITS, Snapshot, Target, count
from memory_core.errors import OperationRefused
from memory_core.operations import (
    Change,
    Operation,
    apply_operations,
    ensure_unchanged_since,
    inverse_operations,
    trace_batches,
    trace_operations,
)
from tests.memory_core.building import MEMORY, USER, add, remove, replace
from tests.memory_core.strategies import LAWS, accepted, batches, snapshots

ABC = Snapshot(user=("A", "B", "C"))


def same_entries(one: Snapshot, other: Snapshot) -> bool:
    """Whether both hold the same entries in the same documents, in whatever order."""
    return all(Counter(one.of(target)) == Counter(other.of(target)) for target in Target)


@pytest.mark.parametrize(
    ("batch", "changes"),
    [
        ([add("D")], [Change(USER, None, "D")]),
        ([replace("A", "D")], [Change(USER, "A", "D")]),
        ([remove("A")], [Change(USER, "A", None)]),
        ([add("D"), remove("D")], []),
        ([remove("A"), add("A")], []),
        ([add("A")], []),
        ([replace("A", "A")], []),
        ([replace("A", "D"), replace("D", "E")], [Change(USER, "A", "E")]),
        ([replace("A", "D"), replace("D", "A")], []),
        ([replace("A", "D"), remove("D")], [Change(USER, "A", None)]),
        ([add("D"), replace("D", "E")], [Change(USER, None, "E")]),
        ([replace("A", "T"), replace("B", "A"), replace("T", "B")], []),
        ([replace("B", "D"), replace("A", "B")], [Change(USER, None, "D"), Change(USER, "A", None)]),
        ([replace("A", "D"), add("A")], [Change(USER, None, "D")]),
        (
            [add("D", MEMORY), remove("B"), add("E")],
            [Change(USER, None, "E"), Change(USER, "B", None), Change(MEMORY, None, "D")],
        ),
    ],
)
def test_changes_are_the_net_difference(batch: list[Operation], changes: list[Change]) -> None:
    """An entry that is there before and after has not changed, however it moved; an edited entry is one change."""
    assert list(trace_operations(ABC, batch)[1]) == changes


def test_a_change_knows_its_kind() -> None:
    """Added, replaced or removed follows from which side is absent."""
    kinds = [Change(USER, None, "a").kind, Change(USER, "a", "b").kind, Change(USER, "a", None).kind]
    assert kinds == ["added", "replaced", "removed"]


@LAWS
@given(snapshots, st.data())
def test_tracing_is_applying_and_tells_exactly_the_difference(snapshot: Snapshot, data: st.DataObject) -> None:
    """trace and apply agree; the befores are what went, the afters what came, and no text is on both sides."""
    batch = data.draw(accepted(snapshot))
    try:
        after, changes = trace_operations(snapshot, batch)
    except OperationRefused:
        assume(False)
    assert apply_operations(snapshot, batch) == after
    for target in Target:
        gone = [change.before for change in changes if change.target is target and change.before is not None]
        come = [change.after for change in changes if change.target is target and change.after is not None]
        assert Counter(gone) == Counter(snapshot.of(target)) - Counter(after.of(target))
        assert Counter(come) == Counter(after.of(target)) - Counter(snapshot.of(target))
        assert not set(gone) & set(come)


@LAWS
@given(snapshots, st.data())
@example(ABC, None)
def test_the_inverse_brings_back_exactly_the_entries_of_before(snapshot: Snapshot, data: st.DataObject | None) -> None:
    """After swaps, cycles, chains and full documents too: it is accepted, fits, and is itself undone by its inverse."""
    cycle = [replace("A", "T"), replace("B", "A"), replace("C", "B"), replace("T", "C"), remove("A")]
    batch = cycle if data is None else data.draw(accepted(snapshot))
    try:
        after, changes = trace_operations(snapshot, batch)
    except OperationRefused:
        assume(False)
    back, back_changes = trace_operations(after, inverse_operations(changes))
    assert same_entries(back, snapshot)
    assert same_entries(apply_operations(back, inverse_operations(back_changes)), after)


@pytest.mark.parametrize("target", list(Target))
def test_a_full_document_can_be_undone_into_a_full_document(target: Target) -> None:
    """Only the end of the inverse is judged, so a document that was full may be full again."""
    limit = LIMITS[target]
    full = Snapshot().with_(target, ("x" * (limit - 23), "y" * 10, "z" * 7))
    batch = [replace("x", "short", target), add("w" * (limit - 50), target), remove("y" * 10, target)]
    after, changes = trace_operations(full, batch)
    back = apply_operations(after, inverse_operations(changes))
    assert same_entries(back, full)
    assert count(back.of(target)) == limit


def test_removed_entries_come_back_last_and_edited_ones_in_their_place() -> None:
    """The inverse takes away what was added, turns back what was edited where it stands, and appends the rest."""
    after, changes = trace_operations(ABC, [remove("A"), replace("C", "D"), add("E")])
    assert inverse_operations(changes) == (remove("E"), replace("D", "C"), add("A"))
    assert apply_operations(after, inverse_operations(changes)).user == ("B", "C", "A")


def test_an_inverse_may_be_longer_than_a_batch_of_the_tool() -> None:
    """A change of many entries is undone whole; the limit of twenty is the tool field's."""
    many = [add(f"fact {number}") for number in range(30)]
    after, changes = trace_operations(Snapshot(), many)
    assert len(inverse_operations(changes)) == 30
    assert apply_operations(after, inverse_operations(changes)) == Snapshot()


@LAWS
@given(snapshots, st.lists(batches, max_size=4))
def test_several_batches_are_one_after_the_other_with_one_net_difference(
    snapshot: Snapshot, many: list[tuple[Operation, ...]]
) -> None:
    """trace_batches ends where applying batch by batch ends, and is refused exactly when one of them is."""
    expected: Snapshot | None = snapshot
    for batch in many:
        try:
            expected = apply_operations(expected, batch) if expected is not None else None
        except OperationRefused:
            expected = None
    if expected is None:
        with pytest.raises(OperationRefused):
            trace_batches(snapshot, many)
    else:
        after, changes = trace_batches(snapshot, many)
        assert after == expected
        assert same_entries(apply_operations(after, inverse_operations(changes)), snapshot)


def test_each_batch_is_judged_at_its_own_end() -> None:
    """Two batches are not one: what the second would make room for, the first may not take."""
    too_long = [add("x" * 1375), add("y")]
    with pytest.raises(OperationRefused) as refused:
        trace_batches(Snapshot(), [[add("a"), *too_long], [remove("x")]])
    assert (refused.value.code, refused.value.used) == ("capacity_exceeded", 0)
    assert trace_batches(Snapshot(), [[*too_long, remove("x")]])[0].user == ("y",)


def test_a_refusal_names_the_place_in_its_own_batch() -> None:
    """The index counts from the start of the batch that was refused."""
    with pytest.raises(OperationRefused) as refused:
        trace_batches(ABC, [[add("D"), add("E")], [add("F"), remove("nowhere")]])
    assert refused.value.operation == 1


@pytest.mark.parametrize(
    ("change", "now", "unchanged"),
    [
        (Change(USER, None, "D"), Snapshot(user=("A", "D")), True),
        (Change(USER, None, "D"), Snapshot(user=("A",)), False),
        (Change(USER, None, "D"), Snapshot(user=("A D",)), False),
        (Change(USER, None, "D"), Snapshot(memory=("D",)), False),
        (Change(USER, "A", "D"), Snapshot(user=("D",)), True),
        (Change(USER, "A", "D"), Snapshot(user=("E",)), False),
        (Change(USER, "A", "D"), Snapshot(user=("D", "A")), False),
        (Change(USER, "A", None), Snapshot(user=("B",)), True),
        (Change(USER, "A", None), Snapshot(user=("A B",), memory=("A",)), True),
        (Change(USER, "A", None), Snapshot(user=("A",)), False),
        (Change(MEMORY, "A", None), Snapshot(user=("A",)), True),
    ],
)
def test_undo_is_for_what_is_still_as_the_change_left_it(change: Change, now: Snapshot, unchanged: bool) -> None:
    """What came must be there as a whole entry of its document, what went must not be there again."""
    if unchanged:
        ensure_unchanged_since(now, [change])
        return
    with pytest.raises(OperationRefused) as refused:
        ensure_unchanged_since(now, [Change(USER, None, "A B") if "A B" in now.user else change, change])
    assert (refused.value.code, refused.value.target, refused.value.operation) == ("changed_since", change.target, None)


@LAWS
@given(snapshots, st.data())
def test_right_after_a_change_nothing_has_changed_since(snapshot: Snapshot, data: st.DataObject) -> None:
    """What a batch leaves passes the check of its own changes; what was before does not, if there were any."""
    try:
        after, changes = trace_operations(snapshot, data.draw(accepted(snapshot)))
    except OperationRefused:
        assume(False)
    ensure_unchanged_since(after, changes)
    if changes:
        with pytest.raises(OperationRefused):
            ensure_unchanged_since(snapshot, changes)
