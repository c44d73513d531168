"""What a turn can say while it runs, in the order it can be said.

``TurnStarted · TextDelta* · ToolStarted* · MemoryStaged* · TextDelta* · TurnEnded``. Events are values; who shows
them, and how, is not known here. ``MemoryStaged.changes`` and ``TextDelta.text`` hold words: they go to the owner
and nowhere else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.outcome import Ending
from memory_core.document import Target
from memory_core.operations import Change


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The turn is on record and the model is about to be asked."""

    turn_id: str
    conversation_id: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the answer: everything one read from the model brought."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """The model has called a tool."""

    tool: str


@dataclass(frozen=True, slots=True)
class MemoryStaged:
    """The ledger holds changes that wait for the turn to end well.

    ``changes`` is the net difference so far, not only the last batch.
    """

    operation_count: int
    targets: Mapping[Target, int]
    changes: tuple[Change, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """Nothing follows. What it says is what the database holds."""

    turn_id: str
    ending: Ending


TurnEvent = TurnStarted | TextDelta | ToolStarted | MemoryStaged | TurnEnded
