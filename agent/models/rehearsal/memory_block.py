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

    def holds(self, words: str) -> bool:
        return any(words in entry for entry in (*self.user, *self.memory))

    def is_entry(self, words: str) -> bool:
        return words in (*self.user, *self.memory)


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
