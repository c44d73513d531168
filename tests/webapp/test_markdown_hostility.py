"""Markdown that means harm: no answer can reach out of its place."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.webapp.markup import PIECES, Page, eager, joined
from webapp.markdown import render_markdown

ALLOWED = {
    *("p br hr h3 h4 h5 h6 ul ol li blockquote strong em s code pre a table thead tbody tr th td".split()),
    *("figure figcaption span div button svg use".split()),
}

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
