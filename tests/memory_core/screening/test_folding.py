"""Folding: the skeleton in which rules look for words."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.screening.folding import LOOKALIKES, compact, fold
from tests.memory_core.strategies import LAWS


@pytest.mark.parametrize(
    ("text", "skeleton"),
    [
        ("Plain TEXT\nin lines", "plain text\nin lines"),
        ("&lt;&LT;&#60;&#x3c;&lt", "<<<<<"),
        ("&amp;amp;lt;", "<"),
        ("&amp;amp;amp;lt;", "&lt;"),
        ("\\u003c \\U003C \\u{3c \\u{0003C} \\x3C %3c %253c", "< < < <} < < <"),
        ("\\u00e9 %e9", "e e"),
        ("\\u1234 %zz 100%", "\\u1234 %zz 100%"),
        ("ＷＩＤＥ①ﬁ", "wide1fi"),
        ("e\u0301é\u20dd\ufe0f\u200d", "ee"),
        ("ſtraße", "strasse"),
        ("‹⟨〉»", "<<>»"),
        ("a‐b—c−d", "a-b-c-d"),
        ("РУС", "pyc"),
        ("日本語 فارسی", "日本語 فارسی"),
    ],
)
def test_spellings_fold_to_one_skeleton(text: str, skeleton: str) -> None:
    """Entities, escapes, width, marks, case and look-alikes."""
    assert fold(text) == skeleton


def test_compact_leaves_no_gaps() -> None:
    """White space, hyphens and low lines go; everything else stays."""
    assert compact("a - b_c\n\u3000d.e") == "abcd.e"


def test_every_look_alike_is_read_as_one_ascii_character() -> None:
    """The table maps single characters, in lower case, to plain ASCII."""
    assert all(chr(source) == chr(source).casefold() and not chr(source).isascii() for source in LOOKALIKES)
    assert all(chr(target).isascii() for target in LOOKALIKES.values())


@LAWS
@given(st.text())
def test_folding_never_fails_and_keeps_plain_lower_case_text(text: str) -> None:
    """Any string has a skeleton; for plain letters and spaces it is the text itself."""
    assert isinstance(fold(text), str)
    plain = "".join(char for char in text if "a" <= char <= "z" or char in " \n")
    assert fold(plain) == plain


@pytest.mark.invariant("I37")
@pytest.mark.parametrize("marks", ["&#x301;&#x316;", "\uff9e\u0316", "\u302e\U0001d165"])
def test_a_mountain_of_marks_is_folded_in_no_time(marks: str) -> None:
    """Also of those that only come to light here: written as entities, or in their halfwidth form."""
    began = time.thread_time()
    fold("e" + marks * 50_000)
    assert time.thread_time() - began < 5
