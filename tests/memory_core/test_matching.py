"""Which entry a match names, and what counts as a duplicate."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memory_core.document import Snapshot, Target
from memory_core.operations import Change, apply_operations, trace_operations
from tests.memory_core.building import USER, add, refusal, remove, replace
from tests.memory_core.strategies import LAWS, WORDS, respelled, snapshots


@pytest.mark.invariant("I03")
def test_a_whole_entry_wins_over_the_entries_that_contain_it() -> None:
    """ "Uses Go" can be edited and removed beside "Uses Go at work"."""
    snapshot = Snapshot(user=("Uses Go at work", "Uses Go"))
    assert apply_operations(snapshot, [replace("Uses Go", "Uses Rust")]).user == ("Uses Go at work", "Uses Rust")
    assert apply_operations(snapshot, [remove("Uses Go")]).user == ("Uses Go at work",)


@pytest.mark.invariant("I03")
@LAWS
@given(snapshots, st.data())
def test_a_match_names_exactly_one_entry_or_the_batch_is_refused(snapshot: Snapshot, data: st.DataObject) -> None:
    """How many entries equal, or else contain, the match decides: one goes through, none or several do not."""
    target = data.draw(st.sampled_from(Target))
    match = data.draw(st.sampled_from((*WORDS, *snapshot.of(target), "Us", "o", "zz")))
    there = snapshot.of(target)
    found = [entry for entry in there if entry == match] or [entry for entry in there if match in entry]
    if len(found) == 1:
        left = [entry for entry in there if entry != found[0]]
        assert apply_operations(snapshot, [remove(match, target)]) == snapshot.with_(target, left)
    else:
        refused = refusal(apply_operations, snapshot, [remove(match, target)])
        assert refused.code == ("match_ambiguous" if found else "match_not_found")
        assert (refused.operation, refused.target) == (0, target)


@pytest.mark.invariant("I03")
@pytest.mark.parametrize("entries", [("Likes tea", "Likes milk"), ("Likes tea", "Likes milk", "Likes jam")])
def test_two_entries_are_already_too_many(entries: tuple[str, ...]) -> None:
    """A match in two or three entries is ambiguous, for editing and for removing."""
    for operation in (remove("Likes"), replace("Likes", "Likes nothing")):
        refused = refusal(apply_operations, Snapshot(user=entries), [add("first"), operation])
        assert (refused.code, refused.operation, refused.target) == ("match_ambiguous", 1, USER)


@pytest.mark.invariant("I03")
def test_a_match_looks_into_its_own_document_only() -> None:
    """The same words in the other document neither match nor make a match ambiguous."""
    snapshot = Snapshot(user=("Likes tea",), memory=("Likes tea in meetings",))
    assert apply_operations(snapshot, [remove("Likes")]) == Snapshot(memory=("Likes tea in meetings",))
    assert refusal(apply_operations, snapshot, [remove("meetings")]).code == "match_not_found"


@pytest.mark.invariant("I03")
@pytest.mark.parametrize("match", ["", " ", "\n\u2003"])
def test_a_blank_match_is_a_missing_one(match: str) -> None:
    """A match that is empty after normalising would be in every entry; it is refused as missing."""
    for operation in (remove(match), replace(match, "b")):
        refused = refusal(apply_operations, Snapshot(user=("a",)), [operation])
        assert (refused.code, refused.operation, refused.target) == ("match_missing", 0, USER)


def test_of_two_equal_stored_entries_the_first_is_meant() -> None:
    """Equal entries cannot come from these rules; if a database holds them they can still be removed, one at a time."""
    snapshot = Snapshot(user=("a", "b", "a"))
    assert apply_operations(snapshot, [remove("a")]).user == ("b", "a")
    assert apply_operations(snapshot, [replace("a", "c")]).user == ("c", "b", "a")
    edited, changes = trace_operations(snapshot, [replace("a", "c"), replace("a", "d")])
    assert edited.user == ("c", "b", "d")
    assert changes == (Change(USER, "a", "c"), Change(USER, "a", "d"))
    assert trace_operations(snapshot, [remove("a")])[1] == (Change(USER, "a", None),)


@pytest.mark.invariant("I04")
@LAWS
@given(snapshots, st.data())
def test_adding_what_is_there_changes_nothing(snapshot: Snapshot, data: st.DataObject) -> None:
    """An exact duplicate, in any spelling, is accepted and leaves the snapshot as it was."""
    target = data.draw(st.sampled_from(Target))
    assume(snapshot.of(target))
    entry = data.draw(st.sampled_from(snapshot.of(target)))
    assert apply_operations(snapshot, [add(data.draw(respelled(entry)), target)]) == snapshot


@pytest.mark.invariant("I04")
@LAWS
@given(snapshots, st.data())
def test_a_replace_by_the_same_text_changes_nothing_and_by_a_neighbours_text_is_refused(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    """Replacing an entry by itself is a no-op; replacing it by any other entry of its document is a duplicate."""
    target = data.draw(st.sampled_from(Target))
    assume(snapshot.of(target))
    old, new = data.draw(st.sampled_from(snapshot.of(target))), data.draw(st.sampled_from(snapshot.of(target)))
    operation = replace(old, data.draw(respelled(new)), target)
    if old == new:
        assert apply_operations(snapshot, [operation]) == snapshot
    else:
        refused = refusal(apply_operations, snapshot, [operation])
        assert (refused.code, refused.operation, refused.target) == ("entry_duplicate", 0, target)


@pytest.mark.invariant("I04")
def test_the_other_document_and_a_part_of_an_entry_are_no_duplicates() -> None:
    """The same text may stand in both documents, and a text beside one that contains it."""
    snapshot = Snapshot(user=("Uses Go at work",), memory=("Uses Go",))
    assert apply_operations(snapshot, [add("Uses Go")]).user == ("Uses Go at work", "Uses Go")
