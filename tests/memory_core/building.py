"""Short ways to write operations and to see what they end in."""

from collections.abc import Callable, Sequence

import pytest

from memory_core.document import Snapshot, Target
from memory_core.errors import OperationRefused
from memory_core.operations import Action, Operation, apply_operations

USER, MEMORY = Target.USER, Target.MEMORY


def add(content: str | None, target: Target = USER) -> Operation:
    return Operation(target, Action.ADD, content=content)


def replace(match: str | None, content: str | None, target: Target = USER) -> Operation:
    return Operation(target, Action.REPLACE, match, content)


def remove(match: str | None, target: Target = USER) -> Operation:
    return Operation(target, Action.REMOVE, match)


def outcome(snapshot: Snapshot, operations: Sequence[Operation]) -> Snapshot | None:
    """The snapshot after the batch, None when it is refused."""
    try:
        return apply_operations(snapshot, operations)
    except OperationRefused:
        return None


def refusal(call: Callable[..., object], *arguments: object) -> OperationRefused:
    """The refusal that the call ends in."""
    with pytest.raises(OperationRefused) as refused:
        call(*arguments)
    return refused.value
