"""Reply: everything one turn gathers while the model speaks. It belongs to one request and dies with it."""

import time
from dataclasses import dataclass, field, replace
from typing import Any, Self

from agent.begin import BegunTurn
from agent.commit import Answer
from agent.models.protocol import RoundEnd
from agent.outcome import Ending, MemoryEnding, MemoryOutcome, MemoryStatus, Outcome, Reason
from agent.tools.memory_update import MemoryTool
from memory_core.errors import RefusalCode
from memory_core.ledger import MemoryLedger, stage_operations

#: The finish reasons of chat completions.
FINISH_REASONS = frozenset({"stop", "length", "content_filter", "tool_calls", "function_call"})
OTHER_FINISH_REASON = "other"
MOST_TOKENS = 2**31 - 1


@dataclass
class Reply:
    """What was said so far, what was staged, and what was measured."""

    ledger: MemoryLedger | None
    memory: MemoryTool
    status: MemoryStatus
    model: str | None = None
    model_index: int = 0
    last_round: RoundEnd = field(default_factory=lambda: RoundEnd(None))
    tool_rounds: list[dict[str, Any]] = field(default_factory=list)
    input_tokens: int | None = None
    output_tokens: int | None = None
    started: float = field(default_factory=time.monotonic)
    first_token_ms: int | None = None
    rounds: int = 0
    _parts: list[str] = field(default_factory=list)
    _round_begins: int = 0
    _inherited_batches: int = 0

    @classmethod
    def to(cls, turn: BegunTurn) -> Self:
        """An empty reply. When an answer is written again, the inverse of its own earlier change is staged first."""
        if turn.snapshot is None:
            return cls(None, MemoryTool(None), turn.memory_status)
        ledger = MemoryLedger(turn.snapshot)
        if turn.undo_batch:
            stage_operations(ledger, turn.undo_batch)
        return cls(ledger, MemoryTool(ledger), turn.memory_status, _inherited_batches=len(ledger.batches))

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def round_text(self) -> str:
        """What the present round has said, without outer white space."""
        return "".join(self._parts[self._round_begins :]).strip()

    @property
    def has_begun(self) -> bool:
        """Whether a word was said, a tool called or a change staged: from then on no other model may answer."""
        return self.first_token_ms is not None or bool(self.tool_rounds)

    @property
    def staged(self) -> bool:
        """Whether the model has staged anything in this turn."""
        return self.ledger is not None and len(self.ledger.batches) > self._inherited_batches

    @property
    def operation_count(self) -> int:
        return self.ledger.operation_count if self.ledger is not None else 0

    def begin_round(self) -> None:
        """The model is asked once more. Texts of different rounds are different paragraphs."""
        self.rounds += 1
        self._round_begins = len(self._parts)

    def add(self, text: str) -> str:
        """Take more text in; returns what the person is to see of it."""
        if self.first_token_ms is None:
            self.first_token_ms = int((time.monotonic() - self.started) * 1000)
        if self._parts and len(self._parts) == self._round_begins:
            text = f"\n\n{text.lstrip()}"
        self._parts.append(text)
        return text

    def end_round(self, end: RoundEnd) -> None:
        """Take in how a round ended. What a server names is its own text and goes into no record: a finish reason that
        is none of the known ones is *other*, and the model is the one that was asked.
        """
        known = end.finish_reason is None or end.finish_reason in FINISH_REASONS
        self.last_round = end if known else replace(end, finish_reason=OTHER_FINISH_REASON)
        self.input_tokens = _sum(self.input_tokens, end.input_tokens)
        self.output_tokens = _sum(self.output_tokens, end.output_tokens)

    def as_answer(self) -> Answer:
        """The reply as the commit, or the discarding, takes it."""
        return Answer(
            text=self.text,
            finish_reason=self.last_round.finish_reason,
            batches=tuple(self.ledger.batches) if self.ledger else (),
            operation_count=self.operation_count,
            refused=self.memory.refused,
            capacity=self.memory.capacity,
            model=self.model,
            fallback=self.model_index > 0,
            rounds=self.rounds,
            tool_rounds=tuple(self.tool_rounds),
            first_token_ms=self.first_token_ms,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
        )

    def bad_ending(self, outcome: Outcome, reason: Reason | None = None) -> Ending:
        """How the turn stands if it ends now, and not well: whatever was staged is let go."""
        if self.staged:
            memory = MemoryEnding.discarded(outcome, reason)
        elif self.status is MemoryStatus.UNAVAILABLE:
            memory = MemoryEnding(MemoryOutcome.UNAVAILABLE, RefusalCode.MEMORY_UNAVAILABLE)
        elif self.status is MemoryStatus.OFF:
            memory = MemoryEnding(MemoryOutcome.OFF)
        else:
            memory = MemoryEnding(MemoryOutcome.NONE)
        return Ending(outcome, reason, self.last_round.finish_reason, None, memory)


def _sum(so_far: int | None, more: int | None) -> int | None:
    return so_far if more is None else min((so_far or 0) + more, MOST_TOKENS)
