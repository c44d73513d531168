"""The shape of the two documents: normalising, rendering, parsing and counting."""

import time
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_core import document
from memory_core.document import (
    FILENAMES,
    LIMITS,
    PURPOSES,
    SEPARATOR,
    TITLES,
    WHITE_SPACE,
    Snapshot,
    Target,
    Usage,
    count,
    entry_digest,
    normalize,
    parse,
    render,
    usage,
    with_marks_in_order,
)
from memory_core.errors import MemoryUnavailable, UnavailableReason
from tests.memory_core import reference
from tests.memory_core.strategies import LAWS, OUTER, WORDS, entries, respelled, snapshots

#: Letters, marks of several classes, and characters that are several marks.
MARKED = "ae \u00e9\u0301\u0308\u0316\u0323\u0344\u0345\u0f71\u0f72\u0f73\u0f75\u0f81\u1100\u1161"


@pytest.mark.invariant("I05")
@LAWS
@given(st.text())
@example("\u0344")  # one code point whose normal form is two
@example(" \u0308")  # a mark left alone once the space is off
@example("\u2000a\u2001")  # white space whose normal form is other white space
@example("\x1fa\x1c")  # controls that str.strip() would take for white space
def test_normalising_twice_is_normalising_once(text: str) -> None:
    """normalize is idempotent and agrees with the reference model for every string."""
    once = normalize(text)
    assert once == reference.normal(text)
    assert normalize(once) == once


@pytest.mark.invariant("I05")
@LAWS
@given(st.data(), st.sampled_from(WORDS))
def test_no_spelling_of_line_breaks_or_outer_white_space_changes_a_text(data: st.DataObject, text: str) -> None:
    """However line breaks are spelled and whatever white space stands around it, a text is the same text."""
    assert normalize(data.draw(respelled(text))) == text


@pytest.mark.invariant("I05")
@LAWS
@given(st.text(st.sampled_from(MARKED), max_size=12))
def test_marks_put_in_order_are_canonically_the_same(text: str) -> None:
    """Whatever order marks come in, the normal form is the one that Unicode says."""
    assert unicodedata.normalize("NFC", with_marks_in_order(text)) == unicodedata.normalize("NFC", text)


@pytest.mark.invariant("I37")
@pytest.mark.parametrize("marks", ["\u0301\u0316", "\u0f73", "\u0344\u0316"])
def test_a_mountain_of_marks_takes_no_time(marks: str) -> None:
    """A megabyte of them, as a form can bring it: Python alone would need minutes and let no other thread run."""
    began = time.thread_time()
    normalize("e" + marks * 100_000)
    assert time.thread_time() - began < 5


@pytest.mark.invariant("I05")
def test_composed_and_decomposed_text_are_one_text() -> None:
    """Canonically equal spellings count alike, compatibility characters are left alone."""
    assert normalize(unicodedata.normalize("NFD", "Käse")) == "Käse"
    assert normalize("ﬁ ①") == "ﬁ ①"


@pytest.mark.invariant("I05")
def test_white_space_is_unicodes_list_and_not_pythons() -> None:
    """The listed white space is what str.isspace() knows, without the four information separators."""
    known = {chr(code) for code in range(0x110000) if chr(code).isspace()}
    assert set(WHITE_SPACE) == known - {"\x1c", "\x1d", "\x1e", "\x1f"}
    assert set(OUTER) <= set(WHITE_SPACE) | {"\r\n"}
    assert normalize("\x1ftext\x1c") == "\x1ftext\x1c"


@pytest.mark.invariant("I09")
@LAWS
@given(snapshots)
def test_every_document_the_rules_can_reach_comes_back_as_it_went(snapshot: Snapshot) -> None:
    """parse(render(entries)) == entries, as many as there were."""
    for target in Target:
        if snapshot.of(target):
            assert parse(render(snapshot.of(target))) == snapshot.of(target)


@pytest.mark.invariant("I09")
@LAWS
@given(st.text(alphabet="a §\n\u2003", max_size=12))
@example("a\n§\n§\nb")
@example("§\na")
@example("a\n§\n")
@example("a\n\u2003§\nb")
def test_what_parses_renders_to_the_same_bytes_and_the_rest_is_unavailable(text: str) -> None:
    """A stored text either comes back exactly or is unreadable; it is never quietly something else."""
    pieces = text.split(SEPARATOR)
    if all(piece and piece == reference.normal(piece) and reference.storable(piece) for piece in pieces):
        assert parse(text) == tuple(pieces)
        assert render(parse(text)) == text
    else:
        with pytest.raises(MemoryUnavailable, match="unreadable"):
            parse(text)


@pytest.mark.parametrize(
    "text", ["", "\n§\n", "a\n§\n", "\n§\na", "a\n§\n§\nb", " a", "a\n", "§", "a\n § \nb", "a\r\n§\r\nb"]
)
def test_a_misshapen_document_is_unreadable(text: str) -> None:
    """An empty entry, outer white space or a delimiter on a line of its own inside an entry cannot be read."""
    with pytest.raises(MemoryUnavailable) as refused:
        parse(text)
    assert refused.value.reason is UnavailableReason.UNREADABLE


@pytest.mark.parametrize("text", ["a§b", "a\n§b", "§ 5 BGB", "a § b\nc", "\x1fcontrol", "x" * 9999])
def test_what_no_longer_passes_screening_or_fits_is_still_read(text: str) -> None:
    """Parsing judges the shape only, so that an old entry can be seen, shrunk and removed."""
    assert parse(f"first\n§\n{text}") == ("first", text)


def test_a_newer_schema_is_unavailable_and_a_nonsensical_one_unreadable() -> None:
    """Version 2 is not ours to read, version 0 was never written, version 1 is read."""
    with pytest.raises(MemoryUnavailable) as newer:
        parse("a", 2)
    with pytest.raises(MemoryUnavailable) as nonsense:
        parse("a", 0)
    assert (newer.value.reason, nonsense.value.reason) == ("newer_schema", "unreadable")
    assert parse("a", 1) == ("a",)


def test_an_older_schema_is_migrated_step_by_step_on_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """With three versions, a text of the first goes through both steps, one of the second through the last."""
    monkeypatch.setattr(document, "SCHEMA_VERSION", 3)
    monkeypatch.setattr(document, "MIGRATIONS", {1: lambda text: text + " one", 2: lambda text: text + " two"})
    assert [parse("a", version) for version in (1, 2, 3)] == [("a one two",), ("a two",), ("a",)]
    with pytest.raises(MemoryUnavailable):
        parse("a", 4)


@pytest.mark.invariant("I10")
@LAWS
@given(st.lists(entries, max_size=8))
def test_counting_counts_code_points_of_the_rendered_document(drawn: list[str]) -> None:
    """count is the length of what is rendered, separators included, whatever plane a character is from."""
    assert count(drawn) == len(render(drawn)) == reference.size(drawn)


def test_a_worked_count() -> None:
    """Two characters, a separator of three and one character are six; an emoji family is as many as its code points."""
    assert SEPARATOR == "\n§\n"
    assert count(("ab", "c")) == 6
    assert count(("👩‍👩‍👧",)) == 5
    assert count(()) == 0


def test_usage_floors_its_percent_and_never_has_less_than_nothing_free() -> None:
    """564 of 1,375 are 41 %, one below the limit is 99 %, over the limit nothing is free."""
    assert usage(Snapshot(user=("x" * 564,)), Target.USER) == Usage(used=564, limit=1375)
    assert Usage(564, 1375).percent == 41
    assert Usage(1374, 1375).percent == 99
    assert Usage(1375, 1375).percent == 100
    assert (Usage(564, 1375).free, Usage(1375, 1375).free, Usage(1400, 1375).free) == (811, 0, 0)
    assert usage(Snapshot(user=("x",)), Target.MEMORY) == Usage(used=0, limit=2200)


def test_a_snapshot_gives_and_replaces_one_document_at_a_time() -> None:
    """of and with_ touch the document they name and leave the other alone."""
    snapshot = Snapshot(user=("u",), memory=("m",))
    assert (snapshot.of(Target.USER), snapshot.of(Target.MEMORY)) == (("u",), ("m",))
    assert snapshot.with_(Target.USER, ["n"]) == Snapshot(user=("n",), memory=("m",))
    assert snapshot.with_(Target.MEMORY, ["n"]) == Snapshot(user=("u",), memory=("n",))
    assert Snapshot() == Snapshot(user=(), memory=())


def test_both_documents_have_their_public_names_and_limits() -> None:
    """Limits, file names, titles and purposes exist for each document."""
    assert LIMITS == {"user": 1375, "memory": 2200}
    assert FILENAMES == {"user": "USER.md", "memory": "MEMORY.md"}
    assert TITLES == {"user": "User profile", "memory": "Agent memory"}
    assert PURPOSES == {
        "user": "Who you are and how you like to be answered",
        "memory": "What the agent has learned about the work",
    }


@LAWS
@given(st.data(), st.sampled_from(WORDS))
def test_a_digest_is_the_same_for_every_spelling_and_different_elsewhere(data: st.DataObject, text: str) -> None:
    """An entry's digest depends on key, document and normalised text, and on nothing else."""
    digest = entry_digest(b"key", Target.USER, text)
    assert entry_digest(b"key", Target.USER, data.draw(respelled(text))) == digest
    assert len({digest, entry_digest(b"other", Target.USER, text), entry_digest(b"key", Target.MEMORY, text)}) == 3
    assert entry_digest(b"key", Target.USER, text + "!") != digest


def test_a_digest_never_changes_between_releases() -> None:
    """Stored digests stay comparable: this one was computed when the format was fixed."""
    digest = entry_digest(b"\x01" * 32, Target.USER, "Prefers short code examples.")
    assert digest.hex() == "341b92ef70b9b7badac6859e4b6e1c0fa48b164cc29f86b836b54c4286d0bc97"
    assert len(entry_digest(b"k", Target.MEMORY, "\ud800")) == 32
