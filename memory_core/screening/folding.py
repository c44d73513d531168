"""Folding: one plain skeleton for the many spellings of a text, for rules that look for words.

Undone, in this order: entity and escape spellings (&lt; &#60; \\u003c %3C), width and compatibility forms, marks and
invisible characters, case, letters and signs that look like others. The skeleton is only ever searched, never kept.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Final
from unicodedata import category, normalize

from memory_core.document import with_marks_in_order

ESCAPE_ROUNDS: Final = 3  # &amp;amp;lt; is as deep as it is looked for
ESCAPES: Final = re.compile(r"(?:\\u00|\\u\{0*|\\x|%)([0-9a-f]{2})", re.IGNORECASE)  # of ASCII and Latin-1
DROPPED_CATEGORIES: Final = frozenset({"Mn", "Me", "Cf"})
# Halfwidth sound marks: letters by class, which the compatibility form turns into marks.
WIDE_MARKS: Final = str.maketrans("\uff9e\uff9f", "\u3099\u309a")
# Look-alikes in lower case above what they are read as: letters, brackets, bars, dashes. Not a complete list, and it
# need not be: what it feeds are rules for a few fixed names.
LOOKALIKES: Final = str.maketrans(
    "абсԁеһіјкӏмнорԛѕтуԝхαβεικνορτυχıɡ" + "‹〈⟨˂ᐸ❮❬⧼›〉⟩˃ᐳ❯❭⧽" + "∣❘ǀ│┃⎮" + "‐‑‒–—―−⁃▁‿" + "【〔⟦】〕⟧⁄∕٪",
    "abcdehijklmhopqstywxabeiknoptuxig" + "<<<<<<<<>>>>>>>>" + "||||||" + "--------__" + "[[[]]]//%",
)


def fold(text: str) -> str:
    """The skeleton of a text; line breaks stay where they are."""
    for _ in range(ESCAPE_ROUNDS):
        text, earlier = unescape(ESCAPES.sub(_decode, text)), text
        if text == earlier:
            break
    if text.isascii():
        return text.lower()
    decomposed = normalize("NFKD", with_marks_in_order(text.translate(WIDE_MARKS)))
    visible = "".join(char for char in decomposed if char.isascii() or category(char) not in DROPPED_CATEGORIES)
    return visible.casefold().translate(LOOKALIKES)


def compact(folded: str) -> str:
    """A skeleton without white space, hyphens and low lines, for names however they are broken up."""
    return re.sub(r"[\s_-]+", "", folded)


def _decode(escape: re.Match[str]) -> str:
    """The character of a backslash or percent escape."""
    return chr(int(escape[1], 16))
