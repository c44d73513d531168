"""Reading the memory block back from a system prompt, as a model would: from its text alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

_OPENS: Final = "<persistent_memory_data>"
_CLOSES: Final = "</persistent_memory_data>"
_DOCUMENTS: Final = re.compile(
    r"\s*USER PROFILE \[[^\n]*\]\n(?P<user>.*)\n\nAGENT MEMORY \[[^\n]*\]\n(?P<memory>.*?)\s*", re.DOTALL
)
_EMPTY: Final = "(empty)"
_SYSTEM_ROLES: Final = frozenset({"system", "developer"})


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """The entries the prompt shows, by target. `is_readable` is False where the block says memory is unavailable."""

    user: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()
    is_readable: bool = True

    def target_of(self, words: str) -> str:
        """The document that holds these words: as a whole entry first, then inside one; the user profile if neither."""
        for found in (words.__eq__, lambda entry: words in entry):
            for target, entries in (("user", self.user), ("memory", self.memory)):
                if any(found(entry) for entry in entries):
                    return target
        return "user"

    def as_written(self, words: str) -> str | None:
        """These words as memory writes them, upper and lower case being the same: as a whole entry first, then inside
        one; None if no entry holds them.
        """
        entries = (*self.user, *self.memory)
        if any(words in entry for entry in entries):
            return words
        sought = re.compile(re.escape(words), re.IGNORECASE)
        found = [sought.fullmatch(entry) for entry in entries] + [sought.search(entry) for entry in entries]
        return next((match[0] for match in found if match is not None), None)

    def holders_of(self, target: str, words: str) -> tuple[str, ...]:
        """The entries of one document that the words mean: the whole entry they are, or all that hold them."""
        entries = self.of(target)
        return (words,) if words in entries else tuple(entry for entry in entries if words in entry)

    def is_entry(self, words: str) -> bool:
        return words in (*self.user, *self.memory)

    def of(self, target: str) -> tuple[str, ...]:
        """One document's entries."""
        return self.user if target == "user" else self.memory


def find_memory_block(messages: Sequence[Any]) -> MemoryBlock | None:
    """The block of the system prompt, or None: what stands between the last tags, for the policy names them too."""
    prompt = "\n".join(str(message.get("content")) for message in messages if message.get("role") in _SYSTEM_ROLES)
    before, closes, _ = prompt.rpartition(_CLOSES)
    _, opens, block = before.rpartition(_OPENS)
    if not (opens and closes):
        return None
    documents = _DOCUMENTS.fullmatch(block)
    if documents is None:
        return MemoryBlock(is_readable=False)
    return MemoryBlock(_entries(documents["user"]), _entries(documents["memory"]))


def _entries(document: str) -> tuple[str, ...]:
    return () if document == _EMPTY else tuple(document.split("\n§\n"))
