"""From Markdown tokens to HTML that may stand in a page: the parser, the renderer and the sanitizer of answers.

Two walls. The parser reads no HTML, so whatever an answer holds is text; and the sanitizer lets through only the tags,
attributes and addresses that the renderer writes itself. `|safe` is right for what `render_tokens` returns and for
nothing else. Every way to make the work grow faster than the text is bounded here (`NESTING`, `BRACKETS`).
"""

import re
from collections.abc import Sequence
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup

from webapp.code_figure import code_figure

#: Quotes and lists in one another; the parser leaves out what lies deeper. A list and its item are two.
NESTING = 20
#: ``[`` in one paragraph; with more it is shown as written, because link parsing takes time quadratic in them.
BRACKETS = 500
#: A table's name, taken from its head, in characters.
TABLE_NAME_CHARS = 80

#: A page has its own first and second heading; answers begin at the third, whether they use # or ##.
_HEADINGS = {"h1": "h3", "h2": "h3", "h3": "h4", "h4": "h5", "h5": "h6", "h6": "h6"}
_SCHEMES = {"http", "https", "mailto"}
_ADDRESS = re.compile(r"(?:https?|mailto):", re.IGNORECASE)
_BARE_ADDRESS = re.compile(r"https?://[^\s<>\"'`]+", re.IGNORECASE)
_AFTER_ADDRESS = ".,;:!?*_~’”"

_BLOCKS = {"p", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "hr", "pre", "figure", "figcaption", "div"}
_BLOCKS |= {"table", "thead", "tbody", "tr", "th", "td"}
_WORDS = {"a", "strong", "em", "s", "code", "span", "br"}
_CLEANER = nh3.Cleaner(
    tags=_BLOCKS | _WORDS,
    clean_content_tags={"script", "style"},
    attributes={"*": set(), "a": {"href"}, "ol": {"start"}, "pre": {"aria-label"}, "div": {"aria-label"}},
    tag_attribute_values={
        "pre": {"tabindex": {"0"}},
        "div": {"tabindex": {"0"}, "role": {"region"}},
        "th": {"scope": {"col"}},
    },
    allowed_classes={
        "figure": {"code"},
        "span": {"k", "n", "s", "c"},
        "div": {"table-scroll"},
        "th": {"num"},
        "td": {"num"},
    },
    set_tag_attribute_values={"a": {"target": "_blank"}},
    link_rel="noopener noreferrer nofollow",
    url_schemes=_SCHEMES,
    url_relative="deny",
)

# Only code_figure writes this sequence, and only the sanitizer's output is searched for it.
_CAPTION_END = "</span></figcaption>"
_CAPTION_END_WITH_COPY = (
    '</span><button class="button button--small button--quiet script-on" type="button"'
    ' aria-label="Copy code" data-copy="code">'
    '<svg class="icon" aria-hidden="true"><use href="/static/icons.svg#copy"></use></svg>'
    "<span>Copy</span></button></figcaption>"
)


def parse(text: str, env: dict[str, Any]) -> list[Token]:
    """The tokens of `text`; link definitions are looked up in, and added to, ``env["references"]``."""
    return _PARSER.parse(text, env)


def render_tokens(tokens: Sequence[Token]) -> Markup:
    """Sanitized HTML of whole blocks. The button that copies code is added last, from a constant."""
    clean = _CLEANER.clean(_PARSER.renderer.render(tokens, _PARSER.options, {}))
    return Markup(clean.replace(_CAPTION_END, _CAPTION_END_WITH_COPY))  # what the sanitizer returned


class _AnswerRenderer(RendererHTML):
    """Public methods are the rules, named for the token they render."""

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return code_figure(tokens[idx].content, tokens[idx].info)

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return code_figure(tokens[idx].content)

    def heading_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"<{_HEADINGS[tokens[idx].tag]}>"

    def heading_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"</{_HEADINGS[tokens[idx].tag]}>\n"

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        name = Markup.escape(_table_name(tokens, idx))
        return f'<div class="table-scroll" tabindex="0" role="region" aria-label="{name}"><table>\n'

    def table_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return "</table></div>\n"

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f'<th scope="col"{_number_class(tokens[idx])}>'

    def td_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"<td{_number_class(tokens[idx])}>"


def _table_name(tokens: Sequence[Token], start: int) -> str:
    """*Table: Release, Change*, so that two tables of a page can be told apart by their names."""
    heads: list[str] = []
    for token in tokens[start:]:
        if token.type == "thead_close":
            break
        if token.type == "inline":
            heads.append(token.content.strip())
    named = ", ".join(filter(None, heads))[:TABLE_NAME_CHARS]
    return f"Table: {named}" if named else "Table"


def _number_class(token: Token) -> str:
    return ' class="num"' if "right" in str(token.attrGet("style") or "") else ""


# Rules of the parser.


def _inline_within_bounds(state: StateCore) -> None:
    """Parse the words of each paragraph, unless its brackets would make that slow."""
    for token in state.tokens:
        if token.type != "inline":
            continue
        token.children = []
        if token.content.count("[") > BRACKETS:
            token.children.append(_text(token.content))
        else:
            state.md.inline.parse(token.content, state.md, state.env, token.children)


def _addresses_and_images(state: StateCore) -> None:
    """A bare web address becomes a link, and so does an image: nothing is fetched until a person follows it."""
    for token in state.tokens:
        if token.type == "inline" and token.children:
            token.children = _with_links(token.children)


def _with_links(children: list[Token]) -> list[Token]:
    result: list[Token] = []
    depth = 0
    for child in children:
        if child.type in ("link_open", "link_close"):
            depth += child.nesting
            result.append(child)
        elif child.type == "image":
            label = _text(f"Image: {child.content}" if child.content else "Image")
            result += [label] if depth else _link(str(child.attrGet("src")), label)
        elif child.type == "text" and depth == 0 and "://" in child.content:
            result += _with_addresses(child.content)
        else:
            result.append(child)
    return result


def _with_addresses(text: str) -> list[Token]:
    result: list[Token] = []
    done = 0
    for match in _BARE_ADDRESS.finditer(text):
        address = _without_tail(match.group())
        if address.endswith("://"):
            continue
        result += [_text(text[done : match.start()]), *_link(address, _text(address))]
        done = match.start() + len(address)
    return [*result, _text(text[done:])]


def _without_tail(address: str) -> str:
    """Without the punctuation that belongs to the sentence round it; a closing bracket stays if one was opened."""
    trimmed = address.rstrip(_AFTER_ADDRESS)
    if trimmed.endswith((")", "]")) and trimmed.count(")") + trimmed.count("]") > trimmed.count("(") + trimmed.count(
        "["
    ):
        return trimmed[:-1].rstrip(_AFTER_ADDRESS)
    return trimmed


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _link(address: str, label: Token) -> list[Token]:
    return [Token("link_open", "a", 1, attrs={"href": address}), label, Token("link_close", "a", -1)]


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": NESTING}, renderer_cls=_AnswerRenderer)
    parser.enable(["table", "strikethrough"]).disable(["html_block", "html_inline"])
    parser.validateLink = lambda url: _ADDRESS.match(url) is not None  # type: ignore[method-assign]  # its own hook
    parser.core.ruler.at("inline", _inline_within_bounds)
    parser.core.ruler.push("addresses_and_images", _addresses_and_images)
    return parser


_PARSER = _parser()
