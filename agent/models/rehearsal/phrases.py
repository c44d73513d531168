"""What a person can say to the rehearsal model. From words to wishes; knows no prompt, no tool and no wire.

    remember that X                 → Remember("user", X)
    remember for this work: X       → Remember("memory", X)
    replace A with B                → Replace(A, B)
    forget X                        → Forget(X)
    what do you remember            → Recall()
    search our chats for X          → Search(X)

Upper and lower case are the same. A phrase may stand anywhere in a message ("Please remember that …"), several in one.
X is what follows, in the person's own words: to the end of its sentence or line, or what stands in quotation marks.

The whole message, or what follows its last `;`, may say how the reply ends: `stall`, `fail`, `cut off`, `too long`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias


class Ending(StrEnum):
    """How the reply ends. Only GOOD is one that a turn may commit on."""

    GOOD = "good"
    STALL = "stall"
    FAIL = "fail"
    CUT_OFF = "cut off"
    TOO_LONG = "too long"


@dataclass(frozen=True, slots=True)
class Remember:
    target: str
    words: str


@dataclass(frozen=True, slots=True)
class Replace:
    """`readings` are (old, new): more than one where `with` stands several times, the first one first."""

    readings: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Forget:
    words: str


@dataclass(frozen=True, slots=True)
class Recall:
    pass


@dataclass(frozen=True, slots=True)
class Search:
    query: str


Wish: TypeAlias = Remember | Replace | Forget | Recall | Search


@dataclass(frozen=True, slots=True)
class Said:
    """A message as the rehearsal model understands it. `has_more` says that it holds words beyond its wishes."""

    wishes: tuple[Wish, ...]
    ending: Ending = Ending.GOOD
    has_more: bool = False


_OPENERS: Final = re.compile(
    r"""(?<![\w'’])(?:
        (?P<remember> remember \s+ that \b [:,]? \s+ )
      | (?P<work>     remember \s+ for \s+ this \s+ work \b [:,]? \s* (?:that\s+)? )
      | (?P<replace>  replace \s+ )
      | (?P<forget>   forget \s+ (?:about\s+|that\s+)? )
      | (?P<recall>   what \s+ do \s+ you \s+ remember \b )
      | (?P<search>   search \s+ our \s+ chats \s+ for \s+ )
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_NO_WISH_BEFORE: Final = re.compile(
    r"(?:n['’]t|\bnot|\bnever|\bI|(?<!can )(?<!could )(?<!will )(?<!would )\byou)\s+$", re.IGNORECASE
)
_QUOTES: Final = {'"': '"', "`": "`", "“": "”", "„": "“”", "«": "»", "»": "«", "‘": "’", "‚": "‘’", "'": "'"}
_SENTENCE_ENDS: Final = re.compile(r"[.!?…]+(?=\s+(?P<next>\S)|\s*$)|[。！？]")
_ABBREVIATIONS: Final = ("e.g", "i.e", "vs", "etc", "dr", "mr", "mrs", "ms", "st", "no")
_COURTESIES: Final = re.compile(
    r"\b(?:please|and|also|then|now|can you|could you|will you|would you|thanks|thank you|hi|hello|hey|okay|ok)\b",
    re.IGNORECASE,
)
_ENDINGS: Final = {str(ending): ending for ending in Ending if ending is not Ending.GOOD}


def understand(message: str) -> Said:
    """What the message wishes for, in its order, and how the reply is to end."""
    words, ending = _split_ending(message)
    wishes: list[Wish] = []
    rest = [_read_line(line, wishes) for line in words.split("\n")]
    has_more = re.search(r"\w{2,}", _COURTESIES.sub(" ", " ".join(rest))) is not None
    return Said(tuple(wishes), ending, has_more)


def _split_ending(message: str) -> tuple[str, Ending]:
    before, _, last = message.rpartition(";")
    ending = _ENDINGS.get(" ".join(last.lower().split()).rstrip(".!"))
    return (message, Ending.GOOD) if ending is None else (before, ending)


def _read_line(line: str, wishes: list[Wish]) -> str:
    """Adds the line's wishes; returns the words that belong to none."""
    rest, position = "", 0
    while opener := _OPENERS.search(line, position):
        rest += line[position : opener.start()]
        position = opener.end()
        if _NO_WISH_BEFORE.search(line[: opener.start()]):
            continue
        words, length = _take(line[position:])
        wish = _wish(str(opener.lastgroup), words, line[position : position + length])
        if wish is not None:
            wishes.append(wish)
            position += length
    return rest + line[position:]


def _wish(kind: str, words: str, written: str) -> Wish | None:
    if kind == "recall":
        return Recall()
    if kind == "replace":
        readings = _readings(written)
        return Replace(readings) if readings else None
    if not words:
        return None
    if kind == "forget":
        return Forget(words)
    if kind == "search":
        return Search(words)
    return Remember("memory" if kind == "work" else "user", words)


def _take(text: str) -> tuple[str, int]:
    """X and how much of the text it took: what is quoted, or the words to the end of the sentence."""
    quoted = _take_quoted(text)
    if quoted is not None and _is_boundary(text[quoted[1] :]):
        return quoted
    length = next((end.end() for end in _SENTENCE_ENDS.finditer(text) if _ends_sentence(text, end)), len(text))
    return _bare(text[:length]), length


def _take_quoted(text: str) -> tuple[str, int] | None:
    closes = _QUOTES.get(text[:1], "")
    places = [place for place in (text.find(mark, 1) for mark in closes) if place > 1]
    return (text[1 : min(places)].strip(), min(places) + 1) if places else None


def _is_boundary(text: str) -> bool:
    return re.match(r"[.!?,;…]*(?:\s*$|\s+[^a-z])", text) is not None


def _ends_sentence(text: str, end: re.Match[str]) -> bool:
    following = end["next"]
    if following is not None and not following.isupper() and following not in _QUOTES:
        return False
    before = text[: end.start()]
    if before.count('"') % 2:
        return following is None
    last = before.split()[-1:]
    return following is None or not last or last[0].lower().lstrip("(") not in _ABBREVIATIONS


def _bare(words: str) -> str:
    """The words as they are, without the question mark of the request and a closing courtesy."""
    return re.sub(r",\s*please(?=[.!?]*$)", "", words.strip(), flags=re.IGNORECASE).rstrip("?").strip()


def _readings(written: str) -> tuple[tuple[str, str], ...]:
    """Every way to read `A with B`. Quoted words are never split."""
    quoted = _take_quoted(written)
    if quoted is not None and (joint := re.match(r"\s+with\s+", written[quoted[1] :], re.IGNORECASE)):
        return ((quoted[0], _take(written[quoted[1] + joint.end() :])[0]),)
    joints = re.finditer(r"\s+with\s+", written, re.IGNORECASE)
    found = [(written[: joint.start()].strip(), _take(written[joint.end() :])[0]) for joint in joints]
    return tuple((old, new) for old, new in found if old and new)
