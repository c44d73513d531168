"""Answers as HTML: a whole text at once, or a stream of pieces in which finished blocks are rendered once.

Owns when a block is finished, how much work a stream may cause, and what becomes of characters that would deceive the
eye. How a block looks is `answer_html`'s; what may be streamed to whom is not known here.

A block is *finished* when another block has begun, at the top level, on a line that is complete. Markdown decides line
by line, so no later line can reach back past that, with one exception: a link definition (``[name]: address``) also
turns earlier mentions into links. `MarkdownStream.finish` renders the whole once more, and with that is always right.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from webapp.answer_html import parse, render_tokens

#: So much of an answer is read as Markdown; what follows is shown as plain paragraphs. About 15,000 tokens.
MARKDOWN_CHARS = 64_000
#: After each rendering a stream rests for this many times as long as it took: at most a twentieth of one core.
REST_FACTOR = 19

#: A last line of only these may still become a list, a rule, a heading or a table: not shown before it is clear.
_UNDECIDED = "-=*_+#>|:~`.) \t0123456789"
_DEFINITION = re.compile(r" {0,3}\[[^\]\n]{0,1000}(?:\]:.*)?\Z")

_LINE_END = re.compile(r"\r\n?")
_PARAGRAPH_END = re.compile(r"\n{2,}")
#: Controls (ANSI sequences among them), overrides of the writing direction, halves of surrogate pairs.
_DECEIVING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True)
class BlocksChange:
    """What one piece changed: `frozen` are the blocks finished since the last change, in order, never to be sent
    again; `live` replaces the unfinished rest (the same object as before if nothing about it changed)."""

    frozen: tuple[Markup, ...]
    live: Markup


def render_markdown(text: str) -> Markup:
    """The HTML of a whole answer. Never fails; its time is bounded whatever the text holds."""
    text = _readable(text)
    end = _markdown_end(text, MARKDOWN_CHARS)
    return render_tokens(parse(text[:end], {})) + _plain(text[end:])


class MarkdownStream:
    """One answer while it is written. Not for several threads; `clock` is seconds, monotonic."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._rest_until = clock()
        self._pieces: list[str] = []
        self._carried = ""
        self._tail = ""
        self._frozen_chars = 0
        self._references: dict[str, Any] = {}
        self._is_plain = False
        self._live = Markup()

    def feed(self, text: str) -> BlocksChange:
        """Take the next piece. Renders what is unfinished, or rests and shows the piece together with the next one."""
        self._pieces.append(text)
        text = self._carried + text
        self._carried = "\r" if text.endswith("\r") else ""  # the half of a line end, until the other half is here
        self._tail += _readable(text.removesuffix("\r"))
        started = self._clock()
        if started < self._rest_until:
            return BlocksChange((), self._live)
        frozen = self._advance()
        self._rest_until = started + (self._clock() - started) * (1 + REST_FACTOR)
        return BlocksChange(frozen, self._live)

    @property
    def rest_seconds(self) -> float:
        """How long it would still rest: whoever feeds it only after that sees every piece at once."""
        return max(0.0, self._rest_until - self._clock())

    def finish(self) -> Markup:
        """The whole answer, rendered once: exactly ``render_markdown`` of all pieces."""
        return render_markdown("".join(self._pieces))

    def _advance(self) -> tuple[Markup, ...]:
        if self._is_plain:
            return self._advance_plain()
        end = _markdown_end(self._tail, MARKDOWN_CHARS - self._frozen_chars)
        if end == len(self._tail):
            return self._advance_markdown()
        last_blocks = render_tokens(parse(self._tail[:end], {"references": self._references}))
        self._tail, self._is_plain = self._tail[end:], True
        return (last_blocks, *self._advance_plain())

    def _advance_markdown(self) -> tuple[Markup, ...]:
        shown = _without_undecided_line(self._tail)
        env = {"references": dict(self._references)}
        tokens = parse(shown, env)
        starts = [i for i, token in enumerate(tokens) if token.level == 0 and token.nesting >= 0]
        complete_lines = shown.count("\n")
        begun = [i for i in starts if _first_line(tokens[i]) < complete_lines]
        last = begun[-1] if begun else 0
        frozen = tuple(render_tokens(tokens[a:b]) for a, b in pairwise(starts) if b <= last)
        self._live = render_tokens(tokens[last:])
        if frozen:
            self._freeze_lines(_first_line(tokens[last]), env["references"])
        return frozen

    def _freeze_lines(self, lines: int, references: dict[str, Any]) -> None:
        chars = _chars_of_lines(self._tail, lines)
        self._tail = self._tail[chars:]
        self._frozen_chars += chars
        known = {name: found for name, found in references.items() if found["map"][1] <= lines}
        self._references = {**known, **self._references}

    def _advance_plain(self) -> tuple[Markup, ...]:
        finished, separator, self._tail = self._tail.rpartition("\n\n")
        self._live = _plain(self._tail)
        return (_plain(finished),) if separator and finished.strip() else ()


def _readable(text: str) -> str:
    """One kind of line end; characters that deceive the eye are shown as what they are."""
    return _DECEIVING.sub(_shown, _LINE_END.sub("\n", text))


def _shown(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's pictures of control characters
    if 0x2000 < code < 0x2070:
        return f"‹U+{code:04X}›"
    return "\u2421" if code == 0x7F else "\N{REPLACEMENT CHARACTER}"


def _markdown_end(text: str, chars: int) -> int:
    """Where Markdown ends and plain text begins: after the last line that fits."""
    if len(text) <= chars:
        return len(text)
    return text.rfind("\n", 0, max(chars, 0)) + 1


def _without_undecided_line(text: str) -> str:
    start = text.rfind("\n") + 1
    last = text[start:]
    return text[:start] if not last.strip(_UNDECIDED) or _DEFINITION.match(last) else text


def _first_line(token: Any) -> int:
    return token.map[0] if token.map else 0


def _chars_of_lines(text: str, lines: int) -> int:
    chars = 0
    for _ in range(lines):
        chars = text.index("\n", chars) + 1
    return chars


def _plain(text: str) -> Markup:
    """Paragraphs and line breaks, nothing else."""
    paragraphs = (part.strip("\n") for part in _PARAGRAPH_END.split(text))
    return Markup("").join(
        Markup("<p>{}</p>\n").format(Markup("<br>").join(paragraph.split("\n")))
        for paragraph in paragraphs
        if paragraph
    )
