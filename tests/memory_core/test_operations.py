"""A batch as a whole: order, spelling, screening, all or nothing, and a reference model of it all."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_core.document import Snapshot, Target, count, normalize, parse, render
from memory_core.operations import Operation, apply_operations, parse_operations
from tests.memory_core import reference
from tests.memory_core.building import MEMORY, USER, add, outcome, refusal, remove, replace
from tests.memory_core.strategies import (
    BAD,
    LAWS,
    WORDS,
    adds,
    any_snapshots,
    batches,
    removals,
    replacements,
    respelled,
    snapshots,
)


@pytest.mark.invariant("I03")
@pytest.mark.invariant("I04")
@pytest.mark.invariant("I08")
@LAWS
@given(any_snapshots, batches)
@example(Snapshot(user=("Uses Go", "Uses Go at work")), (replace("Uses Go", "a"),))
@example(Snapshot(user=("x" * 1376,)), (add("a", MEMORY),))
@example(Snapshot(user=("x" * 1376,)), (replace("x", "y" * 1376),))
def test_every_batch_does_what_the_reference_model_does(snapshot: Snapshot, batch: tuple[Operation, ...]) -> None:
    """Accepted or refused, and with which entries: always as the naive telling of the rules has it."""
    assert outcome(snapshot, batch) == reference.run(snapshot, batch)


def test_the_order_of_operations_is_the_order_of_effects() -> None:
    """Each operation sees the one before it: what was just added can be edited, what was removed cannot."""
    assert apply_operations(Snapshot(), [add("a"), replace("a", "b"), add("c")]) == Snapshot(user=("b", "c"))
    refused = refusal(apply_operations, Snapshot(user=("a",)), [remove("a"), replace("a", "b")])
    assert (refused.code, refused.operation, refused.target) == ("match_not_found", 1, USER)


def test_an_empty_batch_changes_nothing() -> None:
    """The rules accept no operations at all; only the tool's field asks for one."""
    assert apply_operations(Snapshot(user=("a",)), []) == Snapshot(user=("a",))


@pytest.mark.invariant("I05")
@LAWS
@given(snapshots, st.data())
def test_the_spelling_of_a_batch_never_changes_its_outcome(snapshot: Snapshot, data: st.DataObject) -> None:
    """Contents and matches with other line breaks and outer white space: the same entries, sizes and refusals."""
    batch = data.draw(
        st.lists(adds(st.sampled_from(WORDS)) | removals() | replacements(new=st.sampled_from(WORDS)), max_size=4)
    )
    respell = [
        Operation(
            operation.target,
            operation.action,
            None if operation.match is None else data.draw(respelled(operation.match)),
            None if operation.content is None else data.draw(respelled(operation.content)),
        )
        for operation in batch
    ]
    assert outcome(snapshot, respell) == outcome(snapshot, batch)


@pytest.mark.invariant("I05")
def test_normalisation_comes_before_the_limit() -> None:
    """Padding and two-character line breaks do not push a text over the limit, and save it from nothing."""
    fits = "\r\n ".join(["x" * 685, "y" * 687]) + "\u2003" * 50  # normalised: 685 + 2 + 687 = 1,374
    assert count(apply_operations(Snapshot(), [add(fits)]).user) == 1374
    assert refusal(apply_operations, Snapshot(), [add("\r\n".join(["x" * 688, "y" * 687]))]).needed == 1376


@pytest.mark.invariant("I06")
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("target", list(Target))
def test_nothing_forbidden_comes_in_by_any_action(bad: str, target: Target) -> None:
    """Adding and replacing refuse the same contents with the same code, at their place in the batch."""
    snapshot = Snapshot(user=("a fact",), memory=("a fact",))
    adding = refusal(apply_operations, snapshot, [add("fine", target), add(bad, target)])
    replacing = refusal(apply_operations, snapshot, [add("fine", target), replace("a fact", bad, target)])
    assert adding.code == replacing.code
    assert adding.code in {"entry_empty", "entry_control", "entry_reserved"}
    assert (adding.operation, replacing.operation, adding.target, replacing.target) == (1, 1, target, target)


@pytest.mark.invariant("I06")
@pytest.mark.parametrize("target", list(Target))
def test_a_payload_split_over_entries_is_refused_whichever_half_comes_last(target: Target) -> None:
    """Neither half is anything on its own; together they would open or close the block."""
    for halves in (
        ("see <persistent_", "memory_data> now"),
        ("<", "/persistent memory data"),
        ("User profile", "[41% full"),
    ):
        first, second = halves
        snapshot = apply_operations(Snapshot(), [add(first, target)])
        for batch in ([add(second, target)], [add("other", target), replace("other", second, target)]):
            refused = refusal(apply_operations, snapshot, batch)
            assert (refused.code, refused.operation, refused.target) == ("entry_reserved", None, target)
        assert apply_operations(snapshot, [add("between", target), add(second, target)]).of(target)[2] == second


@pytest.mark.invariant("I06")
def test_only_a_finding_that_was_not_there_before_refuses_the_whole() -> None:
    """A document held back for an old finding can be edited and extended, but not by a second finding of its kind."""
    held = Snapshot(user=("<persistent_memory_data>", "a"), memory=("b",))
    assert apply_operations(held, [add("c")]).user == ("<persistent_memory_data>", "a", "c")
    assert apply_operations(held, [replace("a", "<"), add("x", MEMORY)]).user == ("<persistent_memory_data>", "<")
    refused = refusal(apply_operations, held, [replace("a", "<persistent_"), add("memory_data>")])
    assert (refused.code, refused.operation) == ("entry_reserved", None)


@pytest.mark.invariant("I06")
def test_what_the_other_document_holds_excuses_nothing() -> None:
    """Each document is compared with itself: a half or the whole of a payload in the other one makes no difference."""
    for other in (("<persistent_",), ("<persistent_", "memory_data>")):
        snapshot = Snapshot(user=("<persistent_",), memory=other)
        refused = refusal(apply_operations, snapshot, [add("memory_data>")])
        assert (refused.code, refused.target) == ("entry_reserved", USER)


@pytest.mark.invariant("I06")
def test_an_old_finding_that_leaves_does_not_make_room_for_another() -> None:
    """Findings are compared by what matched, not by how many there are."""
    held = Snapshot(user=("[41% - 5/1375 characters]",))
    batch = [add("<persistent_"), add("memory_data"), remove("[41%")]
    assert refusal(apply_operations, held, batch).code == "entry_reserved"


@pytest.mark.invariant("I06")
@pytest.mark.parametrize("held", ["zero\u200bwidth", "<persistent_memory_data>", "nul\x00", "[INST]"])
def test_a_held_back_entry_can_always_be_removed(held: str) -> None:
    """A removal screens neither its match nor the document it leaves behind."""
    snapshot = Snapshot(user=("<", held, "persistent_memory_data"))
    assert apply_operations(snapshot, [remove(held)]).user == ("<", "persistent_memory_data")


@pytest.mark.invariant("I07")
@LAWS
@given(snapshots, batches, batches, st.sampled_from([add(""), remove("nowhere"), add("a\tb"), remove(None)]))
def test_one_bad_operation_anywhere_refuses_the_batch_and_names_its_place(
    snapshot: Snapshot, before: tuple[Operation, ...], after: tuple[Operation, ...], bad: Operation
) -> None:
    """Whatever stands around it, nothing is applied: the snapshot is untouched and the refusal says so."""
    kept = Snapshot(snapshot.user, snapshot.memory)
    refused = refusal(apply_operations, snapshot, (*before, bad, *after))
    assert snapshot == kept
    assert refused.operation is not None
    assert refused.operation <= len(before)
    assert str(refused) == f"operation {refused.operation} was refused: {refused.code}; nothing was changed"


@pytest.mark.invariant("I07")
def test_a_refusal_holds_no_text() -> None:
    """Codes, places and counts only: no word of the batch or of memory is in the error, its arguments or its repr."""
    snapshot = Snapshot(user=("SENTINEL stored",))
    for batch in (
        [add("SENTINEL\x00")],
        [remove("SENTINEL gone")],
        [add("SENTINEL " * 400)],
        [replace("SENTINEL", "")],
    ):
        refused = refusal(apply_operations, snapshot, batch)
        assert "SENTINEL" not in f"{refused} {refused!r} {refused.args} {vars(refused)}"
    raw = {"operations": [{"target": "SENTINEL", "action": "add", "content": "SENTINEL"}]}
    refused = refusal(parse_operations, raw)
    assert "SENTINEL" not in f"{refused} {refused!r} {vars(refused)}"


@pytest.mark.invariant("I09")
@LAWS
@given(st.lists(batches, max_size=6))
def test_whatever_the_rules_reach_is_unique_normal_and_comes_back_from_storage(
    many: list[tuple[Operation, ...]],
) -> None:
    """Every reachable document parses to itself, its entries are normalised, storable and never twice the same."""
    snapshot = Snapshot()
    for batch in many:
        snapshot = outcome(snapshot, batch) or snapshot
    for target in Target:
        kept = snapshot.of(target)
        assert not kept or parse(render(kept)) == kept
        assert len(set(kept)) == len(kept)
        assert all(normalize(entry) == entry and reference.storable(entry) for entry in kept)
