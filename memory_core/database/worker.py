"""Workers: database calls in threads, and how a coroutine waits for one that is already under way.

A commit can succeed although whoever awaited it was cancelled. So a cancelled wait goes on until the work is over, and
tells how it ended. It goes on against both kinds of cancel: anyio cancels every later await again (its shield keeps
that off), and a native `Task.cancel()` goes through that shield (so the wait is begun again).
"""

import asyncio
import concurrent.futures
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar, cast

import anyio

from memory_core.database.cancellation import Cancellation
from memory_core.errors import CommitUnknown, TransactionCancelled

#: After a cancel every wait of a transaction is bounded: a connection (3 s and 5 s), a statement (cut after 2 s).
#: This is more than their sum; a thread that is not back by then is given up.
LAST_WAIT_SECONDS: Final = 20.0

T = TypeVar("T")


class WorkerLost(CommitUnknown):
    """The work was not over in time after its cancel; only what is stored can tell what it did."""


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """How the work ended, and the cancel that reached whoever waited for it meanwhile."""

    value: T | None
    error: BaseException | None
    cancel: asyncio.CancelledError | None = None

    @property
    def cancelled(self) -> bool:
        return self.cancel is not None

    def unwrap(self) -> T:
        """The value; raises the error of the work instead, if it had one. Says nothing of the cancel."""
        if self.error is not None:
            raise self.error
        return cast(T, self.value)

    def raise_if_cancelled(self) -> None:
        """Raise the cancel that was held back, once the outcome is on record."""
        if self.cancel is not None:
            raise self.cancel


class Workers:
    """A bounded set of threads. Built once, closed at the end."""

    def __init__(self, max_threads: int, *, last_wait_seconds: float = LAST_WAIT_SECONDS) -> None:
        self._executor = concurrent.futures.ThreadPoolExecutor(max_threads, thread_name_prefix="database")
        self._last_wait_seconds = last_wait_seconds

    async def run(self, work: Callable[[], T], *, cancel: Cancellation | None = None) -> T:
        """The work's value. A cancel is passed on to it, awaited, and only then raised here (CancelledError)."""
        outcome = await self.run_to_end(work, cancel=cancel)
        outcome.raise_if_cancelled()
        return outcome.unwrap()

    async def run_to_end(self, work: Callable[[], T], *, cancel: Cancellation | None = None) -> Outcome[T]:
        """How the work ended, whatever happened to us meanwhile. Never raises CancelledError.

        A cancel that arrives is held back in the outcome: the caller records how the work ended and then calls
        `raise_if_cancelled`. Work that had not begun by then never begins (TransactionCancelled).
        """
        job = self._executor.submit(work)
        done = asyncio.wrap_future(job)
        held_back = None
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError as error:
            held_back = None if done.cancelled() else error
        except BaseException as error:  # noqa: BLE001 - the work's own, handed over as it is
            return Outcome(None, error)
        # Outside the `except`: a second cancel must not carry the first one as its context.
        return _outcome(done) if held_back is None else await self._wait_out(job, done, cancel, held_back)

    def close(self) -> None:
        """Begin nothing more. Work under way goes on to its own bounds; nothing waits for it here."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _wait_out(
        self,
        job: concurrent.futures.Future[T],
        done: asyncio.Future[T],
        cancel: Cancellation | None,
        held_back: asyncio.CancelledError,
    ) -> Outcome[T]:
        if job.cancel():
            return Outcome(None, TransactionCancelled(), held_back)
        if cancel is not None:
            cancel.set()
        give_up_at = time.monotonic() + self._last_wait_seconds
        with anyio.CancelScope(shield=True):
            while not done.done() and (left := give_up_at - time.monotonic()) > 0:
                try:
                    await asyncio.wait({done}, timeout=left)
                except asyncio.CancelledError as error:
                    held_back = error  # a native one: it concerns the task, where the first may concern a scope only
        return _outcome(done, held_back)


def _outcome(done: asyncio.Future[T], held_back: asyncio.CancelledError | None = None) -> Outcome[T]:
    if not done.done():
        return Outcome(None, WorkerLost(), held_back)
    if done.cancelled():
        return Outcome(None, TransactionCancelled(), held_back)
    error = done.exception()
    return Outcome(None if error is not None else done.result(), error, held_back)
