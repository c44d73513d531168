"""What the rehearsal model answers: a pure function of the request. Knows the tools' names and shapes, and no wire.

The first round calls the tools that the person's wishes need, if the request has them; the round after their results,
or a wish that needs none, is text. It looks at nothing before the last user message but the system prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agent.models.rehearsal import words
from agent.models.rehearsal.memory_block import MemoryBlock, find_memory_block
from agent.models.rehearsal.phrases import Ending, Forget, Recall, Remember, Replace, Said, Search, Wish, understand

MEMORY_UPDATE: Final = "memory_update"
SESSION_SEARCH: Final = "session_search"


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. `arguments` is JSON."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Reply:
    """One round: calls, or a text and how it ends."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    ending: Ending = Ending.GOOD


def reply_to(messages: Sequence[Mapping[str, Any]], tools: frozenset[str]) -> Reply:
    """The same request always gets the same reply."""
    place = max((at for at, message in enumerate(messages) if message.get("role") == "user"), default=-1)
    said = understand(_text(messages[place]) if place >= 0 else "")
    block = find_memory_block(messages)
    results = [message for message in messages[place + 1 :] if message.get("role") == "tool"]
    operations = [_operation(wish, block or MemoryBlock()) for wish in said.wishes if _changes_memory(wish)]
    calls = tuple(_calls(said.wishes, operations, tools))
    if calls and not results:
        return Reply(calls=calls)
    answers = _answers(said, operations, block, tools, calls, results)
    return Reply("\n\n".join(answers), ending=said.ending)


def _calls(wishes: Sequence[Wish], operations: list[dict[str, str]], tools: frozenset[str]) -> Iterator[Call]:
    """All changes of memory are one batch."""
    if operations and MEMORY_UPDATE in tools:
        yield Call(MEMORY_UPDATE, _json({"operations": operations}))
    for wish in wishes:
        if isinstance(wish, Search) and SESSION_SEARCH in tools:
            yield Call(SESSION_SEARCH, _json({"query": wish.query}))


def _changes_memory(wish: Wish) -> bool:
    return isinstance(wish, Remember | Replace | Forget)


def _operation(wish: Wish, block: MemoryBlock) -> dict[str, str]:
    if isinstance(wish, Remember):
        return {"target": wish.target, "action": "add", "content": wish.words}
    if isinstance(wish, Replace):
        held = [reading for reading in wish.readings if block.as_written(reading[0]) is not None]
        old, new = max(held, key=lambda reading: len(reading[0]), default=wish.readings[0])
        match = _match(old, block)
        target = block.target_of(match)
        return {"target": target, "action": "replace", "match": match, "content": _reworded(target, match, new, block)}
    assert isinstance(wish, Forget)
    match = _match(wish.words, block)
    return {"target": block.target_of(match), "action": "remove", "match": match}


def _match(said: str, block: MemoryBlock) -> str:
    """The words as memory writes them, or else as said; a full stop that belongs to the sentence rather than to the
    entry is left out.
    """
    bare = said.rstrip(".!") or said
    forms = [block.as_written(form) or form for form in (said, bare, f"{bare}.")]
    return next((form for form in forms if block.is_entry(form)), forms[1])


def _reworded(target: str, old: str, new: str, block: MemoryBlock) -> str:
    """The one entry that holds the old words, complete, with the new ones in their place; the new ones alone if it is
    no single entry, or if the old ones are all of it.
    """
    holders = block.holders_of(target, old)
    if len(holders) != 1 or holders[0] == old:
        return new
    inside = new if old.endswith((".", "!")) else new.rstrip(".!") or new
    as_words = re.compile(rf"(?<!\w){re.escape(old)}(?!\w)")
    entry, count = as_words.subn(lambda _: inside, holders[0])
    return entry if count else holders[0].replace(old, inside, 1)


def _answers(
    said: Said,
    operations: Sequence[Mapping[str, str]],
    block: MemoryBlock | None,
    tools: frozenset[str],
    calls: Sequence[Call],
    results: Sequence[Mapping[str, Any]],
) -> Iterator[str]:
    """The paragraphs of the reply, in the order of what was asked."""
    for call, result in zip(calls, results, strict=False):
        content = _decoded(_text(result))
        yield _changed(content, operations, block) if call.name == MEMORY_UPDATE else _found(content)
    if operations and MEMORY_UPDATE not in tools:
        yield words.NO_MEMORY_TOOL
    if SESSION_SEARCH not in tools and any(isinstance(wish, Search) for wish in said.wishes):
        yield words.NO_SEARCH_TOOL
    if any(isinstance(wish, Recall) for wish in said.wishes):
        yield words.read_back(block)
    if said.has_more or (not said.wishes and said.ending is Ending.GOOD):
        yield words.introduce(tools)
    if said.ending is not Ending.GOOD:
        yield words.BEFORE_ENDING[said.ending]


def _changed(result: Any, operations: Sequence[Mapping[str, str]], block: MemoryBlock | None) -> str:
    if isinstance(result, dict) and result.get("status") == "refused":
        return words.REFUSALS.get(str(result.get("code")), words.REFUSED_OTHERWISE)
    if all(_is_known(operation, block or MemoryBlock()) for operation in operations):
        return words.KNOWN
    return words.noted([operation["action"] for operation in operations])


def _is_known(operation: Mapping[str, str], block: MemoryBlock) -> bool:
    """Whether it adds what is there already: that is accepted, and changes nothing."""
    return operation["action"] == "add" and operation["content"] in block.of(operation["target"])


def _found(result: Any) -> str:
    values = result.values() if isinstance(result, dict) else [result]
    count = sum(len(value) for value in values if isinstance(value, list))
    passages = "one passage" if count == 1 else f"{count} passages"
    return words.FOUND.format(count=passages) if count else words.NOTHING_FOUND


def _text(message: Mapping[str, Any]) -> str:
    """A message's text: a string, or the text parts of a list."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
