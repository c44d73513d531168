"""Structural screening: text that could not be seen, or that could be taken for the machinery around it.

    invisible   A character that is not seen passes only where a reader's text needs it: PERMITTED says where.
                Everything else that is not seen, and every control, is refused.
    reserved    A line that is the delimiter; the tags around the memory block; the header of a document; the tokens
                and headers by which chat templates separate roles. However they are spelled: see folding.py.

Not yet assigned characters pass, so that new scripts and emoji need no release; those that Unicode promises will
never be seen do not. Unicode's version is that of the generated table, not that of the running Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from memory_core.document import SEPARATOR, has_delimiter_line
from memory_core.errors import RefusalCode
from memory_core.screening import unicode_data as data
from memory_core.screening.finding import Finding
from memory_core.screening.folding import compact, fold

ZWNJ: Final = "\u200c"
ZWJ: Final = "\u200d"
EMOJI_SELECTOR: Final = "\ufe0f"
SURROGATES: Final = "D800..DFFF"
# Visible by category, yet nothing is drawn: the null note head, and the blank braille cell outside a line of braille.
BLANKS: Final = "1D159 2800"
BRAILLE: Final = "2801..28FF"
# Selectors of any unified ideograph: registered variants, and the three that stand for compatibility ideographs.
IDEOGRAPHIC_SELECTORS: Final = "FE00..FE02 E0100..E01EF"


def character_class(*ranges: str) -> str:
    """Hexadecimal ranges as a character class: "0061..0063" → [a-c], each end escaped."""
    ends = ((f"\\U{int(end, 16):08x}" for end in item.split("..")) for text in ranges for item in text.split())
    return f"[{''.join(map('-'.join, ends))}]"


PICTOGRAPH: Final = (
    f"{character_class(data.PICTOGRAPHS)}"
    f"(?:(?<={character_class(data.VARIATION_BASES['FE0E..FE0F'])}){EMOJI_SELECTOR})?"
    f"{character_class(data.SKIN_TONES)}?"
)
MARKS: Final = f"{character_class(data.TRANSPARENT)}*"
FLAGS: Final = "|".join("".join(chr(0xE0000 + ord(letter)) for letter in tags) for tags in data.FLAG_TAGS)

# Where a character that is not seen may stand. Each pattern covers what it permits.
PERMITTED: Final[Mapping[str, str]] = {
    "emoji joined to one": f"{PICTOGRAPH}(?:{ZWJ}{PICTOGRAPH})+",
    "subdivision flag": f"\U0001f3f4(?:{FLAGS})\U000e007f",
    "ideographic variation": f"(?<={character_class(data.IDEOGRAPHS)}){character_class(IDEOGRAPHIC_SELECTORS)}",
    "joiner after a virama (RFC 5892 A.1, A.2)": f"(?<={character_class(data.VIRAMAS)})[{ZWNJ}{ZWJ}]",
    "ZWNJ between joining letters (RFC 5892 A.1)": (
        f"(?<={character_class(data.JOINS_LEFT)}){MARKS}{ZWNJ}{MARKS}(?={character_class(data.JOINS_RIGHT)})"
    ),
    "one blank between braille cells": f"(?<={character_class(BRAILLE)})\u2800(?={character_class(BRAILLE)})",
} | {
    f"variation sequence with {selectors}": f"(?<={character_class(bases)}){character_class(selectors)}"
    for selectors, bases in data.VARIATION_BASES.items()
}
_PERMITTED: Final = re.compile("|".join(PERMITTED.values()))
_UNSEEN: Final = re.compile(
    character_class(data.CONTROLS, data.IGNORABLES, data.NONCHARACTERS, SURROGATES, BLANKS) + r"(?<!\n)"
)

# What is looked for in a text's skeleton (folding.py): plain, or compact, where no space, hyphen or low line is left.
RESERVED_PLAIN: Final[Mapping[str, str]] = {
    "template_token": r"<\|[a-z][\w-]{1,40}\|>",
    "tool_tag": r"</?(?:tool|function)_(?:calls?|responses?|results?)>",
    "role_tag": r"<(?:system|assistant)[_-](?:prompt|message|instructions?)>",
    "role_header": (
        r"^[ ]*#{3,6}[ ]*(?:system|user|assistant|human|instruction|response)(?:[ ](?:prompt|message))?[ ]*:"
    ),
}
RESERVED_COMPACT: Final[Mapping[str, str]] = {
    "memory_tag": r"<[^\w<>]{0,4}persistentmemorydata|persistentmemorydata[^\w<>]{0,4}>",
    "usage_header": (
        r"(?:userprofile|agentmemory)\[\d{1,3}%"
        r"|\[\d{1,3}%[^\w\]]{0,3}\d[\d.,]*/\d[\d.,]*char"
        r"|(?:userprofile|agentmemory)[^\w]{0,4}\d[\d.,]*/(?:1[.,]?375|2[.,]?200)"
    ),
    "chat_token": (
        r"<\|?im(?:start|end|sep)\|?>"
        r"|<\|(?:system|user|assistant|tool|end|eotid|eomid|endoftext|beginoftext|(?:start|end)headerid)\|>"
        r"|<(?:startofturn|endofturn|bos|eos)>"
        r"|\[/?(?:inst|systemprompt|availabletools|toolcalls|toolresults)\]"
        r"|<</?sys>>"
    ),
    "role_end": r"</(?:system|assistant|human)>",
}
_PLAIN: Final = {rule: re.compile(pattern, re.MULTILINE) for rule, pattern in RESERVED_PLAIN.items()}
_COMPACT: Final = {rule: re.compile(pattern) for rule, pattern in RESERVED_COMPACT.items()}


def entry_findings(text: str) -> tuple[Finding, ...]:
    """What is wrong with one normalised entry on its own."""
    return tuple(_unseen(text)) + tuple(_delimiter_lines(text)) + tuple(_reserved(text))


def document_findings(rendered: str) -> tuple[Finding, ...]:
    """What entries say together, each place once: the separators are read as line breaks.

    What is not seen is not looked for again: a line break on either side of an entry permits and forbids nothing.
    """
    return tuple(_reserved(rendered.replace(SEPARATOR, "\n")))


def _unseen(text: str) -> Iterator[Finding]:
    """One finding for each kind of character that stands where it would not be seen."""
    if _UNSEEN.search(text):
        for character in sorted(set(_UNSEEN.findall(_PERMITTED.sub("", text)))):
            yield Finding(RefusalCode.ENTRY_CONTROL, "unseen_character", evidence=ord(character))


def _delimiter_lines(text: str) -> Iterator[Finding]:
    if has_delimiter_line(text):
        yield Finding(RefusalCode.ENTRY_RESERVED, "delimiter_line")


def _reserved(text: str) -> Iterator[Finding]:
    """One finding for each place where the text could be taken for the machinery around it."""
    plain = fold(text)
    for patterns, skeleton in ((_PLAIN, plain), (_COMPACT, compact(plain))):
        for rule, pattern in patterns.items():
            for match in pattern.finditer(skeleton):
                yield Finding(RefusalCode.ENTRY_RESERVED, rule, evidence=hash(match.group()))
