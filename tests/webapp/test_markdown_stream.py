"""Markdown in a stream: frozen blocks and the live rest are together what the whole would be."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it.token import Token
from markupsafe import Markup

from tests.webapp.markup import PIECES, eager, joined
from webapp import answer_html, markdown
from webapp.markdown import render_markdown

texts = st.lists(st.sampled_from([*PIECES, " ", "    ", "\t", "  \n"]), max_size=40).map("".join)
cuts = st.lists(st.integers(0, 120), max_size=8)


def in_pieces(text: str, places: Sequence[int]) -> Iterator[str]:
    edges = sorted({0, len(text), *(min(place, len(text)) for place in places)})
    for start, end in pairwise(edges):
        yield text[start:end]


@given(texts, cuts)
@example("[x]\n\nb\n", [])
@example("a\r\n\r\nb", [2])
@example("|-|-|\n- - -\n", [])
def test_frozen_and_live_together_are_the_whole(text: str, places: Sequence[int]) -> None:
    """After each piece, what was frozen and what is live equal the rendering of all that is shown so far.

    Link definitions are left out here: they alone reach back.
    """
    text = text.replace("]:", "]")
    stream, fed = eager(), ""
    frozen: list[Markup] = []
    for piece in in_pieces(text, places):
        change = stream.feed(piece)
        fed += piece
        frozen += change.frozen
        shown = markdown._without_undecided_line(markdown._readable(fed.removesuffix("\r")))
        assert joined([*frozen, change.live]) == render_markdown(shown)
    assert stream.finish() == render_markdown(text)


@given(texts, cuts)
def test_the_end_is_exactly_the_whole(text: str, places: Sequence[int]) -> None:
    """With link definitions too, the last rendering is the rendering of the whole answer."""
    stream = eager()
    for piece in in_pieces(text + "\n\n[x]: https://e.x\n", places):
        stream.feed(piece)
    assert stream.finish() == render_markdown(text + "\n\n[x]: https://e.x\n")


@pytest.mark.parametrize(
    ("pieces", "frozen"),
    [
        (["a\n", "\nb"], 0),  # the line of b may still become anything
        (["a\n", "\nb\n"], 1),
        (["a\n***", "bold***\n"], 0),  # not a rule, but the same paragraph
        (["a\n***\n"], 1),
        (["- a\n\n", "- b\n\n"], 0),  # one list, becoming loose
        (["- a\n\n", "b\n"], 1),
        (["```\na\n\nb\n\n# c\n"], 0),  # an open fence holds everything
        (["```\na\n```\n", "b\n"], 1),
        (["| a |\n|---|\n| b |\n", "c\n"], 0),  # a row needs no bars
        (["# a\n# b\n# c\n"], 2),
    ],
)
def test_a_block_is_frozen_when_nothing_can_change_it_any_more(pieces: list[str], frozen: int) -> None:
    """Once another top-level block has begun on a complete line, and not before."""
    stream = eager()
    assert sum(len(stream.feed(piece).frozen) for piece in pieces) == frozen


def test_a_line_that_may_become_anything_waits() -> None:
    """A hyphen under a paragraph would make it a heading for a moment, before it turns out to be a list."""
    stream = eager()
    assert stream.feed("Steps:\n-").live == "<p>Steps:</p>\n"
    assert "<li>one</li>" in stream.feed(" one").live


def test_a_definition_made_earlier_is_known_in_later_blocks() -> None:
    """Frozen blocks leave their link definitions behind; the first of two definitions wins, as in the whole."""
    stream = eager()
    stream.feed("[a]: https://e.x/1\n\nOne.\n\nTwo.\n")
    change = stream.feed("\n[a]: https://e.x/2\n\nSee [a] now.\n")
    assert 'href="https://e.x/1"' in joined([*change.frozen, change.live])


def test_a_definition_half_written_is_not_used() -> None:
    """An address is not cut short where a piece happened to end."""
    stream = eager()
    change = stream.feed("See [a].\n\nB\n\n[a]: https://e.x/half")
    assert "href" not in joined([*change.frozen, change.live])


def test_each_block_is_rendered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long answer is not parsed again from its beginning: each parse sees the last blocks only."""
    seen: list[int] = []

    def parse(text: str, env: dict[str, Any]) -> list[Token]:
        seen.append(len(text))
        return answer_html.parse(text, env)

    monkeypatch.setattr(markdown, "parse", parse)
    stream = eager()
    for number in range(200):
        stream.feed(f"Paragraph {number} with a few words in it.\n\n")
    assert max(seen) < 100
