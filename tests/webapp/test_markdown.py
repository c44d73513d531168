"""Markdown: what it becomes, and what it may cost, whole and streamed."""

import time

import pytest
from markupsafe import Markup

from tests.webapp.markup import Page, eager, joined
from webapp import markdown
from webapp.markdown import MarkdownStream, render_markdown

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
