"""Documents as files, the way Hermes keeps them: USER.md and MEMORY.md, entries parted by a line of §.

Reading is generous (line breaks and white space of any kind, empty entries), because what is read is normalised and
judged by the same rules as every write. Writing is `document.render`.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby

from memory_core.changes import Committed
from memory_core.database.transaction import Unit
from memory_core.document import DELIMITER, WHITE_SPACE, Target, normalize
from memory_core.errors import OperationRefused
from memory_core.operations import Action, Operation
from memory_core.owner import Actor
from memory_core.seeding import mark_begun, refuse_too_many
from memory_core.store import commit_batches, read_snapshot


def read_entries(text: str) -> tuple[str, ...]:
    """The entries of a file, normalised; empty ones are none."""
    lines = normalize(text).split("\n")
    parts = groupby(lines, key=lambda line: line.strip(WHITE_SPACE) == DELIMITER)
    entries = (normalize("\n".join(part)) for is_delimiter, part in parts if not is_delimiter)
    return tuple(entry for entry in entries if entry)


def replace_memory(unit: Unit, entries: Mapping[Target, Sequence[str]], *, undo_hours: int) -> Committed | None:
    """Put these documents in the place of those there are, whole or not at all; None: they are the same.

    The person can undo it like any change. Raises OperationRefused, whose `operation` is the index of the entry within
    its document, MemoryUnavailable, TransactionCancelled.
    """
    refuse_too_many(entries)
    before = read_snapshot(unit.connection, unit.locked_owner.id)
    removals = [Operation(target, Action.REMOVE, match=text) for target in entries for text in before.of(target)]
    placed = [(target, index, text) for target, texts in entries.items() for index, text in enumerate(texts)]
    additions = [Operation(target, Action.ADD, content=text) for target, _, text in placed]
    try:
        committed = commit_batches(unit, [removals + additions], actor=Actor.IMPORT, undo_hours=undo_hours)
    except OperationRefused as refusal:
        if refusal.operation is not None and refusal.operation >= len(removals):
            refusal.target, refusal.operation = placed[refusal.operation - len(removals)][:2]
        raise
    if committed is not None:
        mark_begun(unit)
    return committed
