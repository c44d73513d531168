"""Everything the rehearsal model says. It never claims that something is saved: that is the page's to say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agent.models.rehearsal.memory_block import MemoryBlock

NOTED: Final = {
    "add": "I have noted that.",
    "replace": "I have noted the correction.",
    "remove": "I have noted that this should be forgotten.",
    "several": "I have noted these changes.",
}
KNOWN: Final = "That is remembered already, word for word, so there is nothing to change."
PAGE_TELLS: Final = "The page shows what is kept as soon as this answer has ended."

NO_MEMORY_TOOL: Final = "I cannot note anything here: memory is not part of this conversation."
NO_MEMORY_BLOCK: Final = "Memory is not part of this conversation, so there is nothing I could read back."
UNREADABLE_MEMORY: Final = "Your memory cannot be read at the moment. Nothing in it is lost; please ask me again later."
EMPTY_MEMORY: Final = "Nothing yet. Tell me something with `remember that …`."
NO_SEARCH_TOOL: Final = "I cannot search earlier chats here: that tool is not part of this conversation."

REFUSALS: Final = {
    "fields_invalid": "I asked for the change in a form that is not accepted, so nothing was changed.",
    "batch_size": "That is more than fits into one change, so nothing was changed. Try a few at a time.",
    "entry_empty": "There were no words to note, so nothing was changed.",
    "entry_reserved": "Those words hold marks that memory uses for itself, so nothing was changed. Try plain words.",
    "entry_control": "Those words hold invisible or control characters, so nothing was changed.",
    "entry_secret": "That looks like a password or a key. Secrets are never remembered, so nothing was changed.",
    "entry_instruction": "That reads like an instruction rather than a fact about you, so nothing was changed.",
    "entry_duplicate": "An entry with those words is there already, so nothing was changed.",
    "match_missing": "I could not tell which entry you mean, so nothing was changed.",
    "match_not_found": "I found no entry with those words, so nothing was changed. `what do you remember` lists them.",
    "match_ambiguous": "Several entries hold those words, so nothing was changed. Quote more of the one you mean.",
    "capacity_exceeded": "There is no room left for that, so nothing was changed. Remove or shorten an entry first.",
    "memory_unavailable": "Memory cannot be read or changed at the moment. Nothing in it is lost; please try later.",
    "memory_off": "Memory is switched off, so nothing was changed.",
    "give_up": "The change was refused too often, so I have left it. Nothing was changed.",
}
REFUSED_OTHERWISE: Final = "The change was refused, so nothing was changed."

NOTHING_FOUND: Final = "I found nothing about that in our earlier chats."
FOUND: Final = "I searched our earlier chats and found {count} that may help."

GREETING: Final = """\
I am the *rehearsal model*: a small program that stands in until a real model is configured, so that you can try \
everything around it. I understand a few fixed phrases and nothing else."""

TRY_MEMORY: Final = (
    "`remember that I prefer short code examples`",
    "`remember for this work: the build runs with make`",
    "`what do you remember`",
    "`replace short code examples with long ones`",
    "`forget short code examples`",
    "`remember that I like tea; cut off`, and see why it is not kept",
)
TRY_SEARCH: Final = ("`search our chats for tea`",)
TRY_ALWAYS: Final = ("`too long`, `fail` or `stall`, and see how an answer ends that goes wrong",)

SNIPPET: Final = """\
And this is how code looks here:

```python
def remember(entries: list[str], fact: str) -> list[str]:
    \"\"\"A small memory: each fact once, in the order it came.\"\"\"
    return entries if fact in entries else [*entries, fact]
```"""

BEFORE_ENDING: Final = {
    "stall": "I begin an answer and then fall silent, as a server does that has hung …",
    "fail": "I begin an answer and then report an error, as a server does that breaks …",
    "cut off": "I begin an answer and then the stream ends without saying why …",
    "too long": "I begin an answer that is longer than I may write, so it ends in the middle of …",
}


def introduce(tools: frozenset[str]) -> str:
    """What it is and what to try, as far as this conversation's tools go."""
    memory = TRY_MEMORY if "memory_update" in tools else ()
    search = TRY_SEARCH if "session_search" in tools else ()
    return f"{GREETING}\n\nThings to try:\n\n{_list((*memory, *search, *TRY_ALWAYS))}\n\n{SNIPPET}"


def read_back(block: MemoryBlock | None) -> str:
    """What the prompt shows, word for word."""
    if block is None:
        return NO_MEMORY_BLOCK
    if not block.is_readable:
        return UNREADABLE_MEMORY
    shown = (("About you:", block.user), ("About your work:", block.memory))
    return "\n\n".join(f"{title}\n\n{_list(entries)}" for title, entries in shown if entries) or EMPTY_MEMORY


def noted(actions: Sequence[str]) -> str:
    """The words after a change was staged."""
    kind = actions[0] if len(actions) == 1 else "several"
    return f"{NOTED[kind]} {PAGE_TELLS}"


def _list(items: Sequence[str]) -> str:
    return "\n".join("- " + item.replace("\n", "\n  ") for item in items)
