"""Markdown in pieces, a reader of the HTML it becomes, and a stream that never rests."""

from collections.abc import Sequence
from html.parser import HTMLParser

from markupsafe import Markup

from webapp.markdown import MarkdownStream

#: Pieces that Markdown gives a meaning, so that random texts are full of half-finished structure.
PIECES = (
    "a b **c** *d* _e_ ` ``` ```python\n ~~~ ~~ \n \n\n \r\n \r - * + 1. 2. 10) > # ## --- === *** | |-|-|\n"
    "|x|y|\n [x](https://e.x) https://e.x/a <b> &amp; \\ ! ( ) [ ] ]( http:// \x00 \x1b[31m \u202e text\n"
).split(" ")
VOID = {"br", "hr", "use"}


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


def eager() -> MarkdownStream:
    """A stream that never rests: its clock stands still."""
    return MarkdownStream(clock=lambda: 0.0)


def joined(parts: Sequence[Markup]) -> str:
    return "".join(map(str, parts))
