"""What Hypothesis draws for the memory rules: entries, snapshots, operations and batches.

Entries are drawn from few and overlapping texts, so that matches, duplicates and near misses happen often, and a few
of them are long, so that documents fill up.
"""

from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st

from memory_core.document import LIMITS, Snapshot, Target, count
from memory_core.operations import Action, Operation

LAWS = settings(max_examples=80, deadline=None)

WORDS = (
    "Uses Go",
    "Uses Go at work",
    "at work",
    "Go",
    "a",
    "ab",
    "Mag Käse\nund Brot",
    "§ 5 BGB",
    "a §",
    "ノート",
    "👩🏽‍🚀 crew",
)
BAD = ("", " \u00a0\n", "§", "a\n § \nb", "a\tb", "nul\x00", "zero\u200bwidth", "<persistent_memory_data>")
BREAKS = ("\n", "\r\n", "\r", "\u0085", "\u2028", "\u2029")
OUTER = (*BREAKS, " ", "\t", "\v", "\f", "\u00a0", "\u1680", "\u2003", "\u202f", "\u205f", "\u3000")

targets = st.sampled_from(Target)
longs = st.builds(
    lambda letter, chars: letter * chars, st.sampled_from("xyz"), st.sampled_from((300, 450, 1000, 1375, 2200))
)
entries = st.sampled_from(WORDS) | longs
contents = st.sampled_from(WORDS * 3 + BAD) | longs
matches = st.sampled_from((*WORDS, "Use", "o", "work", "", "nowhere", "xx", "x" * 300))


@st.composite
def respelled(draw: st.DrawFn, text: str) -> str:
    """The same text with other line breaks and with white space around it."""
    pieces = text.split("\n")
    body = pieces[0] + "".join(draw(st.sampled_from(BREAKS)) + piece for piece in pieces[1:])
    around = st.lists(st.sampled_from(OUTER), max_size=3).map("".join)
    return draw(around) + body + draw(around)


def _fitting(target: Target, drawn: Sequence[str]) -> tuple[str, ...]:
    """As many of the entries as the document can hold."""
    kept: list[str] = []
    for entry in drawn:
        if count([*kept, entry]) <= LIMITS[target]:
            kept.append(entry)
    return tuple(kept)


def _documents(target: Target) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(entries, unique=True, max_size=7).map(lambda drawn: _fitting(target, drawn))


#: What the rules can reach: unique, storable entries within the limits.
snapshots = st.builds(Snapshot, user=_documents(Target.USER), memory=_documents(Target.MEMORY))
#: Also documents over their limit, which can be stored when a limit is lowered.
any_snapshots = snapshots | st.builds(
    Snapshot,
    user=st.lists(entries, unique=True, max_size=6).map(tuple),
    memory=st.lists(entries, unique=True, max_size=6).map(tuple),
)


def adds(texts: st.SearchStrategy[str] = contents) -> st.SearchStrategy[Operation]:
    """Additions to either document."""
    return st.builds(Operation, targets, st.just(Action.ADD), content=texts)


def removals(texts: st.SearchStrategy[str] = matches) -> st.SearchStrategy[Operation]:
    """Removals from either document."""
    return st.builds(Operation, targets, st.just(Action.REMOVE), match=texts)


def replacements(
    old: st.SearchStrategy[str] = matches, new: st.SearchStrategy[str] = contents
) -> st.SearchStrategy[Operation]:
    """Replacements in either document."""
    return st.builds(Operation, targets, st.just(Action.REPLACE), match=old, content=new)


#: Batches whose fields are in order; many of them are refused for another reason.
batches = st.lists(adds() | removals() | replacements(), max_size=6).map(tuple)


@st.composite
def accepted(draw: st.DrawFn, snapshot: Snapshot) -> tuple[Operation, ...]:
    """A batch that mostly names entries which are there by then: swaps, cycles, chains, removals and re-additions."""
    texts = {target: list(snapshot.of(target)) for target in Target}
    batch: list[Operation] = []
    for _ in range(draw(st.integers(0, 8))):
        target = draw(targets)
        there = texts[target]
        content = draw(st.sampled_from((*WORDS, "temporary", *snapshot.of(target))))
        if not there or draw(st.integers(0, 3)) == 0:
            batch.append(Operation(target, Action.ADD, content=content))
            texts[target] += [content] if content not in there else []
            continue
        place = draw(st.integers(0, len(there) - 1))
        if content in there:
            batch.append(Operation(target, Action.REMOVE, match=there.pop(place)))
        else:
            batch.append(Operation(target, Action.REPLACE, match=there[place], content=content))
            there[place] = content
    return tuple(batch)
