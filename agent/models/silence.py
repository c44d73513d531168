"""How long one may wait for the next byte of an answer. Knows time and tasks; knows nothing of what is read.

A timer per read would cost about as much as decoding it. One timer an answer is enough: when it rings too early,
because the deadline has moved on since, it is set again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class SilenceTimeout(Exception):
    """Nothing came before the deadline."""


class SilenceWatch:
    """Bounds the waits of one reader at a time. Call `stop` when done: until then the timer lives."""

    def __init__(self, deadline: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline = deadline
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Task[object] | None = None
        self._has_rung = False

    def move(self, deadline: float) -> None:
        """The next wait ends at this time of the loop's clock."""
        if self._timer is not None and deadline < self._deadline:
            self.stop()
        self._deadline = deadline

    async def wait(self, awaitable: Awaitable[T]) -> T:
        """What the awaitable gives, or SilenceTimeout after the deadline.

        It is then cancelled. A cancellation from outside always wins: it is never turned into a timeout.
        """
        task = asyncio.current_task()
        assert task is not None
        cancelled_before = task.cancelling()
        self._has_rung, self._waiting = False, task
        if self._timer is None:
            self._timer = self._loop.call_at(self._deadline, self._ring)
        try:
            return await awaitable
        except asyncio.CancelledError:
            if not (self._has_rung and task.uncancel() <= cancelled_before):
                raise
        finally:
            self._waiting = None
        raise SilenceTimeout

    def interrupt(self) -> None:
        """End a wait that is under way, as if its deadline had passed."""
        if self._waiting is not None:
            self._has_rung = True
            self._waiting.cancel()

    def stop(self) -> None:
        """Let go of the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        if self._waiting is not None and self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._ring)
        else:
            self.interrupt()
