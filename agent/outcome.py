"""How a turn can end: one outcome for the answer, one for memory, and the reasons behind them.

The values are mirrored by CHECK constraints of ``turns``; a test keeps the two equal. Reasons are codes, never words:
what a person reads is chosen from them by the page.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from memory_core.document import Target
from memory_core.errors import RefusalCode
from memory_core.operations import Change


class Outcome(StrEnum):
    """Of the answer. A turn leaves ``running`` exactly once."""

    RUNNING = "running"
    COMPLETED = "completed"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class MemoryOutcome(StrEnum):
    """Of memory. Only ``committed`` means that a row changed."""

    NONE = "none"
    UNCHANGED = "unchanged"
    COMMITTED = "committed"
    PROPOSED = "proposed"
    REFUSED = "refused"
    DISCARDED = "discarded"
    UNAVAILABLE = "unavailable"
    OFF = "off"


class MemoryStatus(StrEnum):
    """Whether this turn could read memory at its beginning."""

    AVAILABLE = "available"
    UNAVAILABLE = "unavailable"
    OFF = "off"


class Reason(StrEnum):
    """Why a turn that did not complete ended as it did."""

    TOO_LONG = "too_long"
    FILTERED = "filtered"
    CUT_OFF = "cut_off"
    EMPTY = "empty"
    STEP_CAP = "step_cap"
    TIME_LIMIT = "time_limit"
    BUSY = "model_busy"
    UNREACHABLE = "model_unreachable"
    REJECTED = "model_rejected"
    BROKEN = "model_broken"
    STORAGE = "storage"
    ERASED = "erased"
    INTERNAL = "internal"


#: The refusal a person reads on the receipt when what was staged had to be let go.
DISCARDED_BECAUSE: dict[Outcome, RefusalCode] = {
    Outcome.STOPPED: RefusalCode.STOPPED,
    Outcome.INTERRUPTED: RefusalCode.INTERRUPTED,
    Outcome.FAILED: RefusalCode.FAILED,
}

#: Ends in which the model itself came to a halt too early; the rest of ``FAILED`` is a failure of something else.
CUT_SHORT = frozenset({Reason.TOO_LONG, Reason.FILTERED, Reason.CUT_OFF, Reason.EMPTY, Reason.STEP_CAP})


@dataclass(frozen=True, slots=True)
class Capacity:
    """What stood in the way when a document was full. Code points."""

    target: Target
    used: int
    limit: int
    needed: int

    def as_json(self) -> dict[str, Any]:
        return {"target": str(self.target), "used": self.used, "limit": self.limit, "needed": self.needed}


@dataclass(frozen=True, slots=True)
class MemoryEnding:
    """What became of memory in one turn. ``changes`` holds words: it is for the owner's page alone."""

    outcome: MemoryOutcome
    reason: RefusalCode | None = None
    capacity: Capacity | None = None
    receipt_id: str | None = None
    undo_until: datetime | None = None
    changes: tuple[Change, ...] = field(default=(), repr=False)
    user_characters: int | None = None
    memory_characters: int | None = None
    retry_count: int = 0

    @classmethod
    def discarded(cls, outcome: Outcome, reason: Reason | None = None) -> "MemoryEnding":
        """What was staged is let go because the turn ended so."""
        if reason is Reason.STORAGE:
            return cls(MemoryOutcome.DISCARDED, RefusalCode.STORAGE)
        if reason in CUT_SHORT:
            return cls(MemoryOutcome.DISCARDED, RefusalCode.CUT_OFF)
        return cls(MemoryOutcome.DISCARDED, DISCARDED_BECAUSE[outcome])


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn ended, as every side reports it."""

    outcome: Outcome
    reason: Reason | None
    finish_reason: str | None
    message_id: str | None
    memory: MemoryEnding
    retry_at: datetime | None = None
