"""What could be taken for the machinery around memory, what could not, and what a finding tells."""

import time

import pytest

from memory_core.document import SEPARATOR, normalize, render
from memory_core.screening import Finding, Severity, screen, screen_document
from memory_core.screening.structure import RESERVED_COMPACT
from tests.memory_core.screening.ordinary_notes import NOTES
from tests.memory_core.screening.reserved_texts import RESERVED


def rules_found(text: str) -> set[tuple[str, str]]:
    """Code and rule of every finding in an entry."""
    return {(finding.code, finding.rule) for finding in screen(text)}


@pytest.mark.invariant("I06")
@pytest.mark.parametrize("note", NOTES)
def test_an_ordinary_note_passes(note: str) -> None:
    """Conventions, Markdown, HTML mentions, many scripts, emoji and flags are stored as they are."""
    assert normalize(note)
    assert screen(normalize(note)) == ()


@pytest.mark.invariant("I06")
def test_ordinary_notes_pass_together_too() -> None:
    """In one document, in any neighbourhood of this corpus, they say nothing that they do not say alone."""
    entries = [normalize(note) for note in NOTES]
    assert screen_document(render(entries)) == screen_document(render(entries[::-1])) == ()


@pytest.mark.invariant("I06")
@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in RESERVED.items() for text in texts])
def test_a_look_alike_of_the_machinery_is_found(rule: str, text: str) -> None:
    """In any case, width, entity or escape spelling; and inside other text."""
    for spelling in (
        text,
        f"Likes tea. {text}" if rule != "role_header" else f"Likes tea.\n{text}",
        f"{text}\nLikes tea.",
    ):
        assert ("entry_reserved", rule) in rules_found(normalize(spelling))
        assert {finding.severity for finding in screen(normalize(spelling))} == {Severity.REFUSE}


@pytest.mark.invariant("I06")
@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule in RESERVED_COMPACT for text in RESERVED[rule]])
def test_a_look_alike_cut_in_two_is_found_where_the_entries_meet(rule: str, text: str) -> None:
    """Wherever it is cut, unless in the middle of an entity or escape; the separator hides nothing."""
    for cut in range(1, len(text)):
        first, second = normalize(text[:cut]), normalize(text[cut:])
        if first and second and not set("&\\%") & set(text):
            assert rule in {finding.rule for finding in screen_document(f"a{SEPARATOR}{first}{SEPARATOR}{second}")}


@pytest.mark.invariant("I06")
@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in RESERVED.items() for text in texts])
def test_a_look_alike_is_found_in_a_document_as_in_an_entry(rule: str, text: str) -> None:
    """What one entry holds, the document holds; and what stands on two lines may stand in two entries."""
    document = f"a{SEPARATOR}{normalize(text)}{SEPARATOR}b"
    for rendered in (document, document.replace("\n", SEPARATOR)):
        assert rule in {finding.rule for finding in screen_document(rendered)}


@pytest.mark.invariant("I06")
@pytest.mark.parametrize("text", ["§", " § ", "a\n§", "§\nb", "a\n\u2003§\u00a0\nb"])
def test_a_line_that_is_the_delimiter_is_found(text: str) -> None:
    """Such an entry would come back from storage as two."""
    assert ("entry_reserved", "delimiter_line") in rules_found(text)


@pytest.mark.invariant("I06")
@pytest.mark.parametrize("text", ["§ 5", "a §", "a\n§ b\nc", "§§", "a§b"])
def test_a_delimiter_among_other_text_is_none(text: str) -> None:
    """Only a line of its own separates entries."""
    assert screen(text) == ()


def test_a_finding_holds_no_text() -> None:
    """Rule, code and severity are shown; what matched is not, though two places can be told apart."""
    one, other = screen("[INST] SENTINEL")[0], screen("<<SYS>>")[0]
    assert one == Finding(one.code, "chat_token", Severity.REFUSE, evidence=one.evidence)
    assert one != other
    assert "SENTINEL" not in repr(one)
    assert "evidence" not in repr(one)
    assert "inst" not in repr(one).lower()


def test_each_place_is_a_finding_of_its_own() -> None:
    """Two equal places count twice in a document, two kinds of unseen character are two findings in an entry."""
    document = f"[INST]{SEPARATOR}[INST]{SEPARATOR}[/INST]"
    assert len(screen_document(document)) == 3
    assert len(set(screen_document(document))) == 2
    assert len(screen("a\u200bb\u200bc\u00add")) == 2


def test_a_document_is_not_judged_for_what_its_entries_are_judged_for() -> None:
    """Separators are no delimiter lines, and unseen characters are the entries' own affair."""
    assert screen_document(f"a{SEPARATOR}b\u200b") == ()


@pytest.mark.parametrize(
    "unit",
    [
        "<",
        "< ",
        "&",
        "&amp;",
        "[4%",
        "<|a",
        "### ",
        " ",
        "ب\u200c",
        "👨\u200d",
        "\u200b",
        "क्",
        "\\u00",
        "§\n",
        "user profile",
    ],
)
def test_a_huge_hostile_text_is_screened_in_linear_time(unit: str) -> None:
    """Forty times as long takes no more than some hundred times as long: no pattern runs away."""
    short, long = (normalize(f"x{unit * length}x") for length in (2_500, 100_000))

    def cpu_seconds(text: str) -> float:
        start = time.process_time()
        screen(text)
        return time.process_time() - start

    quick = min(cpu_seconds(short) for _ in range(3))
    assert cpu_seconds(long) < max(quick, 0.002) * 200
