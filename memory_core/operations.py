"""How memory changes: an ordered batch, judged as a whole, applied whole or not at all. Pure functions.

The laws:

1. Fields       add = content; replace = match and content; remove = match. Null is absent, anything else is refused.
2. Order        each operation sees the one before it.
3. Match        a whole entry wins; otherwise the text stands in exactly one entry, or the batch is refused.
4. Duplicates   adding what is there, or replacing by the same text, changes nothing; a replace that would make a
                duplicate is refused.
5. Screening    what is added or replaced is screened alone, then each rendered document after the batch: a finding
                that was not there before refuses it. Removing is never screened, neither its match nor its result.
6. Capacity     judged once, at the end: a document the batch changed is within its limit, or smaller than it was.
7. All or none  a refusal raises and leaves nothing behind: snapshots are values.

What a batch changed is its net difference: an entry that is there before and after has not changed, wherever it
stands. So no text is both what a change took away and what another brought, and undoing needs no particular order.

Knows no identity, no database and no model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final, NoReturn

from memory_core.document import LIMITS, Snapshot, Target, count, normalize, render
from memory_core.errors import OperationRefused, RefusalCode
from memory_core.screening import screen, screen_document

BATCH_MAX_OPERATIONS: Final = 20
# An entry this long fits nowhere, not even where a stored document is over its limit: refused before it is looked at.
ENTRY_MAX_CHARS: Final = 2 * max(LIMITS.values())


class Action(StrEnum):
    """What an operation does to its document."""

    ADD = "add"
    REPLACE = "replace"
    REMOVE = "remove"


@dataclass(frozen=True)
class Operation:
    """One step of a batch; `match` names the entry it touches, `content` is the complete new entry."""

    target: Target
    action: Action
    match: str | None = None
    content: str | None = None


# Law 1 as a table: action → (needs a match, needs content). What is not needed is forbidden.
FIELD_CONTRACT: Final[Mapping[Action, tuple[bool, bool]]] = {
    Action.ADD: (False, True),
    Action.REPLACE: (True, True),
    Action.REMOVE: (True, False),
}
OPERATION_KEYS: Final = frozenset(field.name for field in fields(Operation))


@dataclass(frozen=True)
class Change:
    """One entry that is not as it was: (None, new) added, (old, new) replaced, (old, None) removed."""

    target: Target
    before: str | None
    after: str | None

    @property
    def kind(self) -> str:
        """One of "added", "replaced", "removed"."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "replaced"


@dataclass(frozen=True)
class _Entry:
    """An entry while batches run: what it says now, and what it said before the first of them (None: not there)."""

    text: str
    origin: str | None


def parse_operations(raw: object) -> tuple[Operation, ...]:
    """The tool field's rule: `{"operations": [1 to 20 operations]}` as decoded JSON, and not a key more.

    Raises OperationRefused: `batch_size` for none or too many; `fields_invalid` or `match_missing` for the rest.
    """
    if not isinstance(raw, dict) or raw.keys() != {"operations"} or not isinstance(raw["operations"], list):
        raise OperationRefused(RefusalCode.FIELDS_INVALID)
    items = raw["operations"]
    if not 1 <= len(items) <= BATCH_MAX_OPERATIONS:
        raise OperationRefused(RefusalCode.BATCH_SIZE, limit=BATCH_MAX_OPERATIONS, needed=len(items))
    return tuple(_parse_operation(index, item) for index, item in enumerate(items))


def apply_operations(snapshot: Snapshot, operations: Sequence[Operation]) -> Snapshot:
    """The snapshot after the batch. Raises OperationRefused, and nothing has changed."""
    return trace_operations(snapshot, operations)[0]


def trace_operations(snapshot: Snapshot, operations: Sequence[Operation]) -> tuple[Snapshot, tuple[Change, ...]]:
    """The snapshot after the batch and what it really changed, net."""
    return trace_batches(snapshot, (operations,))


def trace_batches(snapshot: Snapshot, batches: Sequence[Sequence[Operation]]) -> tuple[Snapshot, tuple[Change, ...]]:
    """The snapshot after several batches, each judged at its own end, and what all of them changed together.

    Raises OperationRefused for the first batch that is refused; then none of them has changed anything.
    """
    draft = {target: [_Entry(text, text) for text in snapshot.of(target)] for target in Target}
    after = snapshot
    for batch in batches:
        before = after
        for index, operation in enumerate(batch):
            _run(index, operation, draft[operation.target])
        after = Snapshot(**{target: tuple(entry.text for entry in draft[target]) for target in Target})
        _judge_capacity(before, after)
        if any(operation.action is not Action.REMOVE for operation in batch):
            _judge_documents(before, after)
    return after, tuple(change for target in Target for change in _net(target, snapshot.of(target), draft[target]))


def inverse_operations(changes: Sequence[Change]) -> tuple[Operation, ...]:
    """The batch that takes net changes back; entries that had been removed come back last.

    Judged like any other batch when it is applied. It may be longer than the tool field allows.
    """
    removals = tuple(
        Operation(change.target, Action.REMOVE, match=change.after) for change in changes if change.kind == "added"
    )
    replacements = tuple(
        Operation(change.target, Action.REPLACE, match=change.after, content=change.before)
        for change in changes
        if change.kind == "replaced"
    )
    additions = tuple(
        Operation(change.target, Action.ADD, content=change.before) for change in changes if change.kind == "removed"
    )
    return removals + replacements + additions


def ensure_unchanged_since(snapshot: Snapshot, changes: Sequence[Change]) -> None:
    """Refuse with `changed_since` unless every entry is still as the changes left it."""
    for change in changes:
        if not stands(snapshot, change):
            raise OperationRefused(RefusalCode.CHANGED_SINCE, target=change.target)


def stands(snapshot: Snapshot, change: Change) -> bool:
    """Whether what a change brought is there as a whole entry, and what it took away is not there again."""
    entries = snapshot.of(change.target)
    return (change.after is None or change.after in entries) and change.before not in entries


def _parse_operation(index: int, item: object) -> Operation:
    """One operation of the tool's field; an identity is an unknown key like any other."""
    if not isinstance(item, dict) or not item.keys() <= OPERATION_KEYS:
        _refuse(RefusalCode.FIELDS_INVALID, index)
    if item.get("target") not in tuple(Target) or item.get("action") not in tuple(Action):
        _refuse(RefusalCode.FIELDS_INVALID, index)
    match, content = item.get("match"), item.get("content")
    if not isinstance(match, str | None) or not isinstance(content, str | None):
        _refuse(RefusalCode.FIELDS_INVALID, index)
    operation = Operation(Target(item["target"]), Action(item["action"]), match, content)
    _judge_fields(index, operation)
    return operation


def _run(index: int, operation: Operation, entries: list[_Entry]) -> None:
    """One operation on one document's entries, in place."""
    _judge_fields(index, operation)
    if operation.action is Action.REMOVE:
        del entries[_find(index, operation, entries)]
        return
    texts = [entry.text for entry in entries]
    content = _admit(index, operation, count(texts))
    if operation.action is Action.REPLACE:
        place = _find(index, operation, entries)
        if content in texts and content != texts[place]:
            _refuse(RefusalCode.ENTRY_DUPLICATE, index, operation.target)
        entries[place] = _Entry(content, entries[place].origin)
    elif content not in texts:
        entries.append(_Entry(content, None))


def _judge_fields(index: int, operation: Operation) -> None:
    """Law 1."""
    needs_match, needs_content = FIELD_CONTRACT[operation.action]
    if needs_match and operation.match is None:
        _refuse(RefusalCode.MATCH_MISSING, index, operation.target)
    if (operation.match is not None) != needs_match or (operation.content is not None) != needs_content:
        _refuse(RefusalCode.FIELDS_INVALID, index, operation.target)


def _admit(index: int, operation: Operation, used: int) -> str:
    """The entry as it will be stored: normalised, not empty, not endless, without a finding (law 5)."""
    text = normalize(operation.content or "")
    if not text:
        _refuse(RefusalCode.ENTRY_EMPTY, index, operation.target)
    if len(text) > ENTRY_MAX_CHARS:
        raise OperationRefused(
            RefusalCode.CAPACITY_EXCEEDED,
            operation=index,
            target=operation.target,
            used=used,
            limit=LIMITS[operation.target],
            needed=used + len(text),
        )
    for finding in screen(text):
        _refuse(finding.code, index, operation.target)
    return text


def _find(index: int, operation: Operation, entries: Sequence[_Entry]) -> int:
    """The place of the one entry that the match names (law 3)."""
    text = normalize(operation.match or "")
    if not text:
        _refuse(RefusalCode.MATCH_MISSING, index, operation.target)
    whole = [place for place, entry in enumerate(entries) if entry.text == text]
    places = whole or [place for place, entry in enumerate(entries) if text in entry.text]
    if not places:
        _refuse(RefusalCode.MATCH_NOT_FOUND, index, operation.target)
    if len(places) > 1 and not whole:
        _refuse(RefusalCode.MATCH_AMBIGUOUS, index, operation.target)
    return places[0]


def _judge_capacity(before: Snapshot, after: Snapshot) -> None:
    """Law 6."""
    for target in Target:
        used, needed, limit = count(before.of(target)), count(after.of(target)), LIMITS[target]
        if before.of(target) != after.of(target) and needed > limit and needed >= used:
            raise OperationRefused(RefusalCode.CAPACITY_EXCEEDED, target=target, used=used, limit=limit, needed=needed)


def _judge_documents(before: Snapshot, after: Snapshot) -> None:
    """Law 5, the second half: a payload split over entries shows only in the whole."""
    for target in Target:
        found = screen_document(render(after.of(target))) if before.of(target) != after.of(target) else ()
        if found:
            for finding in Counter(found) - Counter(screen_document(render(before.of(target)))):
                raise OperationRefused(finding.code, target=target)


def _net(target: Target, before: Sequence[str], entries: Sequence[_Entry]) -> list[Change]:
    """The difference between a document before and after, an edited entry as one change.

    In the order of the document as it is now, then what was removed.
    """
    after = [entry.text for entry in entries]
    gone, new = Counter(before) - Counter(after), Counter(after) - Counter(before)
    changes = []
    for entry in entries:
        if new[entry.text]:
            origin = entry.origin if entry.origin is not None and gone[entry.origin] else None
            changes.append(Change(target, origin, entry.text))
            if origin is not None:
                gone[origin] -= 1
    return changes + [Change(target, text, None) for text in gone.elements()]


def _refuse(code: RefusalCode, index: int, target: Target | None = None) -> NoReturn:
    raise OperationRefused(code, operation=index, target=target)
