"""The two bounded documents: how text is normalised, rendered, parsed and counted.

    normalise   line breaks → LF, NFC, outer white space off; the second time changes nothing
    render      entries joined by SEPARATOR; parse takes them apart again: n in, n out
    count       Unicode code points of the rendered document, separators included

Owns the shapes and the limits. Knows neither what may be stored (screening) nor how it changes (operations).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Final
from unicodedata import combining
from unicodedata import normalize as unicode_normalize

from memory_core.errors import MemoryUnavailable, UnavailableReason


class Target(StrEnum):
    """Which of the two documents."""

    USER = "user"
    MEMORY = "memory"


LIMITS: Final[Mapping[Target, int]] = {Target.USER: 1375, Target.MEMORY: 2200}  # code points, rendered
DELIMITER: Final = "§"
SEPARATOR: Final = f"\n{DELIMITER}\n"
SCHEMA_VERSION: Final = 1
FILENAMES: Final[Mapping[Target, str]] = {Target.USER: "USER.md", Target.MEMORY: "MEMORY.md"}
TITLES: Final[Mapping[Target, str]] = {Target.USER: "User profile", Target.MEMORY: "Agent memory"}
PURPOSES: Final[Mapping[Target, str]] = {
    Target.USER: "Who you are and how you like to be answered",
    Target.MEMORY: "What the agent has learned about the work",
}

LINE_BREAKS: Final = ("\r\n", "\r", "\u0085", "\u2028", "\u2029")  # each becomes one LF; CRLF before CR
# Unicode's White_Space property, listed: str.strip() alone would also take U+001C to U+001F, which are controls.
WHITE_SPACE: Final = (
    "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
# The only characters whose canonical form is several marks and nothing else.
MARKS_IN_ONE: Final = {
    "\u0344": "\u0308\u0301",
    "\u0f73": "\u0f71\u0f72",
    "\u0f75": "\u0f71\u0f74",
    "\u0f81": "\u0f71\u0f80",
}

# From a schema version to the one after it, on the stored text. Empty as long as there is one version.
MIGRATIONS: Final[Mapping[int, Callable[[str], str]]] = {}


@dataclass(frozen=True)
class Snapshot:
    """The entries of both documents at one moment, in order."""

    user: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()

    def of(self, target: Target) -> tuple[str, ...]:
        """The entries of one document."""
        return self.user if target is Target.USER else self.memory

    def with_(self, target: Target, entries: Sequence[str]) -> Snapshot:
        """The same snapshot with one document's entries replaced."""
        if target is Target.USER:
            return replace(self, user=tuple(entries))
        return replace(self, memory=tuple(entries))


@dataclass(frozen=True)
class Usage:
    """How full a document is, in code points."""

    used: int
    limit: int

    @property
    def percent(self) -> int:
        """Floored, so that 100 means full."""
        return self.used * 100 // self.limit

    @property
    def free(self) -> int:
        """What is left; 0 for a document over its limit."""
        return max(self.limit - self.used, 0)


def normalize(text: str) -> str:
    """The one spelling of a text in which it is judged, matched, counted and stored.

    Assigned characters keep their normal form in every later Unicode version, so stored text stays normal.
    """
    for line_break in LINE_BREAKS:
        text = text.replace(line_break, "\n")
    return unicode_normalize("NFC", with_marks_in_order(text)).strip(WHITE_SPACE)


def with_marks_in_order(text: str) -> str:
    """Canonically the same text, its marks in the order that normal forms want.

    Python's normalisation brings them into it in a time that grows with the square of their number, and stops every
    thread meanwhile: a letter under 250,000 of them took minutes.
    """
    if text.isascii():
        return text
    for mark, marks in MARKS_IN_ONE.items():
        text = text.replace(mark, marks)
    runs = groupby(text, lambda char: combining(char) > 0)
    return "".join("".join(sorted(run, key=combining) if are_marks else run) for are_marks, run in runs)


def render(entries: Sequence[str]) -> str:
    """One document as it is stored and shown; no entries render as the empty string."""
    return SEPARATOR.join(entries)


def parse(text: str, schema_version: int = SCHEMA_VERSION) -> tuple[str, ...]:
    """The entries of a stored document (never empty: a document without entries has no row).

    Judges the shape only: entries that no longer pass screening, or a document over its limit, are still read.
    Raises MemoryUnavailable: `newer_schema` for a version this release does not know; `unreadable` for a version
    below 1, an empty entry, outer white space, or a delimiter on a line of its own inside an entry.
    """
    if schema_version > SCHEMA_VERSION:
        raise MemoryUnavailable(UnavailableReason.NEWER_SCHEMA)
    if schema_version < 1:
        raise MemoryUnavailable(UnavailableReason.UNREADABLE)
    for version in range(schema_version, SCHEMA_VERSION):
        text = MIGRATIONS[version](text)
    entries = tuple(text.split(SEPARATOR))
    if not all(entry and entry == entry.strip(WHITE_SPACE) and not has_delimiter_line(entry) for entry in entries):
        raise MemoryUnavailable(UnavailableReason.UNREADABLE)
    return entries


def has_delimiter_line(text: str) -> bool:
    """Whether a line of the text, stripped, is the delimiter: such an entry would come back as two."""
    return DELIMITER in text and any(line.strip(WHITE_SPACE) == DELIMITER for line in text.split("\n"))


def count(entries: Sequence[str]) -> int:
    """Code points of the rendered document: ("ab", "c") are 2 + 3 + 1 = 6."""
    return sum(map(len, entries)) + len(SEPARATOR) * max(len(entries) - 1, 0)


def usage(snapshot: Snapshot, target: Target) -> Usage:
    """How full one document of the snapshot is."""
    return Usage(used=count(snapshot.of(target)), limit=LIMITS[target])


def entry_digest(key: bytes, target: Target, text: str) -> bytes:
    """A keyed digest (HMAC-SHA256, 32 bytes) that names an entry without holding its text.

    Equal for equal normalised text in the same document only: the target is part of what is hashed.
    """
    message = f"entry\0{target}\0{normalize(text)}".encode("utf-8", "surrogatepass")
    return hmac.digest(key, message, "sha256")
