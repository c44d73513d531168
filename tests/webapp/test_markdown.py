"""Markdown, whole and streamed: what it becomes, that no answer can reach out of its place, and what it may cost."""

import re
import time
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it.token import Token
from markupsafe import Markup

from webapp import answer_html, markdown
from webapp.markdown import MarkdownStream, render_markdown

#: Pieces that Markdown gives a meaning, so that random texts are full of half-finished structure.
PIECES = (
    "a b **c** *d* _e_ ` ``` ```python\n ~~~ ~~ \n \n\n \r\n \r - * + 1. 2. 10) > # ## --- === *** | |-|-|\n"
    "|x|y|\n [x](https://e.x) https://e.x/a <b> &amp; \\ ! ( ) [ ] ]( http:// \x00 \x1b[31m \u202e text\n"
).split(" ")
texts = st.lists(st.sampled_from([*PIECES, " ", "    ", "\t", "  \n"]), max_size=40).map("".join)
cuts = st.lists(st.integers(0, 120), max_size=8)
VOID = {"br", "hr", "use"}
ALLOWED = {
    *("p br hr h3 h4 h5 h6 ul ol li blockquote strong em s code pre a table thead tbody tr th td".split()),
    *("figure figcaption span div button svg use".split()),
}


class Page(HTMLParser):
    """Reads HTML as a browser would, and remembers every tag and attribute. Unbalanced tags are an error."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(str(html))
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def in_pieces(text: str, places: Sequence[int]) -> Iterator[str]:
    edges = sorted({0, len(text), *(min(place, len(text)) for place in places)})
    for start, end in pairwise(edges):
        yield text[start:end]


def eager() -> MarkdownStream:
    """A stream that never rests: its clock stands still."""
    return MarkdownStream(clock=lambda: 0.0)


def joined(parts: Sequence[Markup]) -> str:
    return "".join(map(str, parts))


# What Markdown becomes.


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("**a** _b_ ~~c~~ `d`", "<p><strong>a</strong> <em>b</em> <s>c</s> <code>d</code></p>\n"),
        ("# a\n## b\n### c\n###### d", "<h3>a</h3>\n<h3>b</h3>\n<h4>c</h4>\n<h6>d</h6>\n"),
        ("3. a\n4. b", '<ol start="3">\n<li>a</li>\n<li>b</li>\n</ol>\n'),
        ("a\nb  \nc", "<p>a\nb<br>\nc</p>\n"),
        ("> a", "<blockquote>\n<p>a</p>\n</blockquote>\n"),
        ("", ""),
    ],
)
def test_an_answer_becomes_plain_html(text: str, html: str) -> None:
    """The usual marks, with headings that begin at the third level."""
    assert render_markdown(text) == html


def test_a_link_opens_apart_and_tells_the_other_site_nothing() -> None:
    """Links of all three kinds carry target and rel."""
    for text in ("[a](https://e.x/b)", "<https://e.x/b>", "see https://e.x/b."):
        tag, attributes = next(found for found in Page(render_markdown(text)).tags if found[0] == "a")
        assert (tag, attributes["href"]) == ("a", "https://e.x/b")
        assert attributes["target"] == "_blank"
        assert attributes["rel"] == "noopener noreferrer nofollow"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("(https://e.x/a)", "https://e.x/a"),
        ("https://e.x/a_(b)", "https://e.x/a_(b)"),
        ("https://e.x/?a=1&b_c=2, so", "https://e.x/?a=1&b_c=2"),
        ("HTTPS://E.X/a!", "HTTPS://E.X/a"),
        ("`https://e.x` https:// and example.org", None),
        ("[https://e.x](https://e.y)", "https://e.y"),
    ],
)
def test_a_bare_address_is_a_link_without_the_sentence_round_it(text: str, address: str | None) -> None:
    """Only whole web addresses, once, and not inside code or another link."""
    hrefs = [attributes["href"] for tag, attributes in Page(render_markdown(text)).tags if tag == "a"]
    assert hrefs == ([address] if address else [])


def test_an_image_is_a_link_and_loads_nothing() -> None:
    """An image is a way to send words elsewhere; a person may follow it, a page does not."""
    html = render_markdown("![a cat](https://e.x/c.png) [![d](https://e.x/e.png)](https://e.x/f)")
    assert "<img" not in html
    assert ">Image: a cat</a>" in html
    assert [attributes["href"] for tag, attributes in Page(html).tags if tag == "a"] == [
        "https://e.x/c.png",
        "https://e.x/f",
    ]


def test_code_has_a_caption_colours_and_a_copy_button() -> None:
    """The figure of the style sheet: caption, button, code that the keyboard can scroll."""
    html = render_markdown('```py\ndef up() -> None:  # soon\n    return "x"\n```')
    assert html.startswith('<figure class="code"><figcaption><span>Python</span><button class="button')
    assert 'data-copy="code"' in html
    assert (
        '<pre tabindex="0" aria-label="Python code"><code><span class="k">def</span> <span class="n">up</span>' in html
    )
    assert '<span class="c"># soon</span>' in html
    assert '<span class="s">"x"</span>' in html
    assert "def up() -> None:  # soon\n" in Page(html).text


@pytest.mark.parametrize(
    ("fence", "label", "name"),
    [
        ("```", "Code", "Code"),
        ("```text", "Text", "Text code"),
        ("```SQL title=x", "SQL", "SQL code"),
        ("```brainfuck", "brainfuck", "brainfuck code"),
        ('```"><script>', "Code", "Code"),
        ("    indented", "Code", "Code"),
    ],
)
def test_the_caption_names_the_language(fence: str, label: str, name: str) -> None:
    """Known languages by their name, unknown ones as written, anything odd not at all."""
    html = render_markdown(f"{fence}\nx\n")
    assert f"<figcaption><span>{label}</span>" in html
    assert f'aria-label="{name}"' in html


def test_a_table_scrolls_and_is_named_for_its_head() -> None:
    """Two tables of one page can be told apart; figures stand to the right."""
    html = render_markdown('| Step | "Cost" |\n|---|--:|\n| a | 1 |')
    assert (
        '<div class="table-scroll" tabindex="0" role="region" aria-label="Table: Step, &quot;Cost&quot;"><table>'
        in html
    )
    assert '<th scope="col" class="num">' in html
    assert '<td class="num">1</td>' in html


def test_characters_that_deceive_the_eye_are_shown_as_what_they_are() -> None:
    """Terminal sequences, overrides of direction, halves of surrogate pairs; also in code."""
    text = render_markdown("\x1b[31mred\x00 \u202eevil `\u2066x` \x7f \x85 \ud800 ok\tgood")
    assert "␛[31mred␀ ‹U+202E›evil <code>‹U+2066›x</code> ␡ � � ok\tgood" in text


# No answer reaches out of its place.


HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '<a href="javascript:alert(1)" onclick="x">y</a>',
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt&colon;alert(1))",
    "[x](\x01javascript:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "![x](data:image/svg+xml;base64,PHN2Zz4=)",
    "<data:text/html,x>",
    "[x](vbscript:x) [y](file:///etc/passwd) [z](//e.x) [w](/sign-out) [v](#top) [u](?a)",
    '[x](https://e.x "onmouseover=alert(1)")',
    '<div hx-get="/memory" hx-trigger="load">x</div>',
    '<hx-partial hx-target="#panel">x</hx-partial>',
    "`<hx-partial>`",
    '| <b onload="x"> | hx-post="/memory/forgettings" |\n|---|---|\n| </table><script> | "\'> |',
    '```"onload="alert(1)\n</code></pre><script>alert(1)</script>\n```',
    "```html\n</span></figcaption><script>alert(1)</script>\n```",
    "</span></figcaption>",
    '```python\n"</span><img src=x onerror=alert(1)>"\n```',
    "&lt;script&gt;alert(1)&lt;/script&gt; &#60;img src=x&#62;",
    "<style>*{display:none}</style><form action=//e.x><input name=message>",
    "[a]: javascript:alert(1)\n\n[a]",
    "https://e.x/\"onmouseover=alert(1) https://e.x/<script> https://e.x/'onx=",
    "<!-- x --> <![CDATA[x]]> <?php x ?>",
    "> > > ```\n> > > <script>",
    "1. <svg/onload=alert(1)>\n   - <math><mi//xlink:href='data:x'>",
)


def assert_harmless(html: str) -> None:
    for tag, attributes in Page(html).tags:
        assert tag in ALLOWED
        for name, value in attributes.items():
            assert name in {
                "href", "target", "rel", "class", "start", "scope", "tabindex", "role",
                "aria-label", "aria-hidden", "type", "data-copy",
            }  # fmt: skip
            if name == "href":
                assert tag == "use" or re.match(r"(https?|mailto):", value or "", re.IGNORECASE)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_markup_stays_text(text: str) -> None:
    """Only our tags and attributes come out, whole or streamed, and every link leads to the web or to mail."""
    assert_harmless(render_markdown(text))
    stream = eager()
    for piece in text:
        change = stream.feed(piece)
        assert_harmless(joined([*change.frozen, change.live]))


@given(st.lists(st.sampled_from([*HOSTILE, *PIECES]), max_size=6).map("".join))
def test_mixed_hostile_markup_stays_text(text: str) -> None:
    """What is harmless alone is harmless together."""
    assert_harmless(render_markdown(text))


@given(st.text(max_size=200))
def test_any_text_is_rendered(text: str) -> None:
    """No text raises, surrogates included."""
    assert_harmless(render_markdown(text))


def test_the_harmlessness_check_bites() -> None:
    """The check above fails on what the sanitizer must stop."""
    for html in ("<img src=x>", "<p onclick=x></p>", '<a href="javascript:x"></a>', "<p hx-get=x></p>", "<b></b>"):
        with pytest.raises(AssertionError):
            assert_harmless(html)


# Streams.


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


# What it may cost.


def test_a_stream_rests_in_proportion_to_its_work() -> None:
    """After a rendering that took one second, nothing is rendered for nineteen; the pieces show up afterwards."""
    now = iter([0.0, 0.0, 1.0, 10.0, 19.9, 20.0, 20.0])
    stream = MarkdownStream(clock=lambda: next(now))
    first = stream.feed("a")
    assert first.live == "<p>a</p>\n"
    assert stream.feed("b").live is first.live
    assert stream.feed("c").live is first.live
    assert stream.feed("d").live == "<p>abcd</p>\n"


COSTLY = {
    "brackets": "[" * 1_000_000,
    "image brackets": "![" * 500_000,
    "link brackets": "[a](" * 250_000,
    "brackets on lines": "[\n" * 500_000,
    "brackets in cells": "|a|\n|-|\n" + ("|" + "[" * 400 + "|\n") * 2_500,
    "stars": "*" * 1_000_000,
    "emphasis": "*a_b" * 250_000,
    "quotes": ">" * 1_000_000,
    "quotes on lines": ">a\n\n" * 250_000,
    "lazy quotes": "> " * 20 + "a\n" + "b\n" * 500_000,
    "nested lists": "".join(" " * (2 * (i % 60)) + "- a\n" for i in range(15_000)),
    "one word": "w" * 1_000_000,
    "line ends": "\n" * 1_000_000,
    "open fence": "```\n" + "x\n" * 500_000,
    "backticks": "".join("`" * (i % 50 + 1) + "a" for i in range(38_000)),
    "addresses": "http://a " * 110_000,
    "address starts": "http://" * 140_000,
    "table": "|a|b|\n|-|-|\n" + "|x|y|\n" * 160_000,
    "entities": "&" * 1_000_000,
    "hostile code": "```java\n" + "a\n" * 9_000 + "```\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("text", COSTLY.values(), ids=COSTLY)
def test_a_megabyte_of_anything_is_rendered_in_bounded_time(text: str) -> None:
    """Seconds of this process, not minutes. Unbounded, the first of these takes hours."""
    before = time.process_time()
    html = render_markdown(text)
    assert time.process_time() - before < 15
    assert len(html) < 8 * len(text) + 1000


def test_a_very_long_answer_ends_in_plain_paragraphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound everything is still there, as paragraphs, whole and streamed alike."""
    monkeypatch.setattr(markdown, "MARKDOWN_CHARS", 33)
    text = "# One\n\n- two\n\nthree **bold**\n\nfour\nfive **plain** <b>\n\nsix\n"
    whole = render_markdown(text)
    assert whole.endswith("<p>four<br>five **plain** &lt;b&gt;</p>\n<p>six</p>\n")
    assert "<strong>bold</strong>" in whole
    stream, live = eager(), Markup()
    frozen: list[Markup] = []
    for piece in text:
        change = stream.feed(piece)
        frozen, live = [*frozen, *change.frozen], change.live
    assert joined([*frozen, live]) == whole
    assert stream.finish() == whole


def test_fed_only_when_it_has_rested_a_stream_holds_nothing_back() -> None:
    """``rest_seconds`` says how long to wait; after that a piece is shown at once."""
    clock = [0.0]
    stream = MarkdownStream(clock=lambda: clock[0])
    assert stream.rest_seconds == 0.0
    stream._rest_until = 5.0
    assert stream.rest_seconds == 5.0
    clock[0] = 5.0
    assert stream.rest_seconds == 0.0
    assert stream.feed("a").live == "<p>a</p>\n"
