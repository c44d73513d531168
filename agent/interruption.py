"""Ending a turn from outside: one scope that turns a wish to stop into an ordinary exception.

Works as ``asyncio.timeout`` does. ``interrupt`` cancels the task that is inside the scope; leaving the scope takes that
cancellation back and raises ``TurnInterrupted`` with the reason instead. A cancellation that did not come through
``interrupt`` (a closing event loop) passes through as what it is.
"""

import asyncio
from types import TracebackType
from typing import Self

from agent.errors import TurnInterrupted
from agent.outcome import Outcome
from memory_core.errors import TransactionCancelled


class Interruption:
    """The scope of one turn. ``interrupt`` may be called before, during or after it, any number of times; the first
    counts.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self.outcome: Outcome | None = None

    def interrupt(self, outcome: Outcome) -> None:
        """End the turn with *stopped* or *interrupted*. Call it on the loop that runs the turn, from another task."""
        if self.outcome is not None:
            return
        self.outcome = outcome
        if self._task is not None:
            self._task.cancel()

    async def __aenter__(self) -> Self:
        if self.outcome is not None:
            raise TurnInterrupted(self.outcome)
        self._task = asyncio.current_task()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if task is None:
            return
        if self.outcome is None:
            return
        cancels_left = task.uncancel()
        if kind is TransactionCancelled or (kind is asyncio.CancelledError and cancels_left == 0):
            raise TurnInterrupted(self.outcome) from None
