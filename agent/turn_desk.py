"""The desk where turns are opened and closed: the three moments at which a turn meets the database.

Each runs in a worker thread and is awaited to its end, whatever cancels the request meanwhile, so that its outcome is
known. An ending that could not be recorded is kept and tried again, once with every sweep of the process.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import anyio
from sqlalchemy.engine import Engine

from agent import telemetry
from agent.begin import BegunTurn, TurnRequest, begin_turn
from agent.commit import Answer, commit_turn
from agent.discard import discard_turn
from agent.errors import EndedBadly, ModelBusy, ModelError, ModelRejected, ModelUnreachable
from agent.outcome import Ending, MemoryEnding, MemoryOutcome, Outcome, Reason
from agent.reply import Reply
from agent.transcript import ending_of
from memory_core.database.transaction import Cancellation, transaction
from memory_core.database.worker import Outcome as Done
from memory_core.database.worker import Workers
from memory_core.errors import CommitUnknown, OwnerGone, StorageFailed, TransactionCancelled

#: How long a COMMIT whose answer was lost is asked about, and how often.
LEARN_SECONDS = 10.0
LEARN_AGAIN_SECONDS = 0.25


@dataclass
class TurnDesk:
    """``memory_enabled`` is the deployment's flag, read again at every commit; ``undo_hours`` 0 switches undo off."""

    engine: Engine
    workers: Workers
    memory_enabled: Callable[[], bool]
    undo_hours: int
    unrecorded: dict[str, Callable[[], Ending]] = field(default_factory=dict)

    async def begin(self, request: TurnRequest) -> BegunTurn:
        """Put the turn on record. Raises what ``begin_turn`` raises.

        A request that is cancelled meanwhile leaves either nothing or an interrupted turn, never a running one.
        """
        cancel = Cancellation()
        begun = await self.workers.run_to_end(lambda: begin_turn(self.engine, request, cancel), cancel=cancel)
        if begun.cancelled and begun.error is None:
            await self.discard(begun.unwrap(), Reply.to(begun.unwrap()), Outcome.INTERRUPTED)
        begun.raise_if_cancelled()
        return begun.unwrap()

    async def commit(self, turn: BegunTurn, reply: Reply) -> Ending:
        """Commit the turn: the one place where what was staged becomes memory. Raises what ``commit_turn`` raises."""
        cancel, answer, started = Cancellation(), reply.as_answer(), time.monotonic()
        done = await self.workers.run_to_end(lambda: self._commit(turn, answer, cancel), cancel=cancel)
        ending = done.unwrap()
        telemetry.turn_ended(turn, answer, ending, seconds=time.monotonic() - reply.started)
        telemetry.memory_update(answer, ending, seconds=time.monotonic() - started)
        return ending

    async def discard(
        self, turn: BegunTurn, reply: Reply, outcome: Outcome, failure: Exception | None = None
    ) -> Ending:
        """End the turn without saving anything; ``failure`` is why, if it failed.

        Never raises: an ending that cannot be recorded now is recorded with a later sweep. If it is not known whether
        the turn was committed after all, its outcome is still *running*: nobody is told what may be false.
        """
        reason = reason_of(failure) if failure is not None else None
        ending = replace(reply.bad_ending(outcome, reason), retry_at=_retry_at(failure))
        partial = reply.as_answer()

        def record() -> Ending:
            return discard_turn(self.engine, turn, ending, partial, keep_text=reason is not Reason.STORAGE)

        done = await self._see_through(record)
        if done.error is not None:
            self.unrecorded[turn.id] = record
        if done.error is None:
            truth = done.unwrap()
        elif isinstance(failure, CommitUnknown):
            truth = replace(ending, outcome=Outcome.RUNNING, memory=MemoryEnding(MemoryOutcome.NONE))
        else:
            truth = ending
        telemetry.turn_ended(turn, partial, truth, seconds=time.monotonic() - reply.started)
        telemetry.memory_update(partial, truth, seconds=0.0)
        return truth

    def record_later(self) -> None:
        """Try again what could not be recorded. Called in a worker thread, with every sweep. One that fails again does
        not keep the others waiting, unless the database gave no answer at all.
        """
        for turn_id, record in list(self.unrecorded.items()):
            try:
                record()
            except StorageFailed as failure:
                if failure.sqlstate is None:
                    return
            else:
                del self.unrecorded[turn_id]

    async def _see_through(self, work: Callable[[], Ending]) -> Done[Ending]:
        """Run what must be done, whatever cancels the request. Cancelled before it had begun, it is handed in again."""
        with anyio.CancelScope(shield=True):
            done = await self.workers.run_to_end(work)
            while done.cancelled and isinstance(done.error, TransactionCancelled):
                done = await self.workers.run_to_end(work)
        return done

    def _commit(self, turn: BegunTurn, answer: Answer, cancel: Cancellation) -> Ending:
        try:
            return commit_turn(
                self.engine,
                turn,
                answer,
                memory_enabled=self.memory_enabled(),
                undo_hours=self.undo_hours,
                cancel=cancel,
            )
        except CommitUnknown:
            ending = self._learn(turn, cancel)
            if ending is not None and ending.outcome is Outcome.COMPLETED:
                return ending
        raise StorageFailed  # outside the `except`: it is known by now that nothing was stored

    def _learn(self, turn: BegunTurn, cancel: Cancellation) -> Ending | None:
        """What COMMIT did. Raises CommitUnknown if the database does not say so in time.

        Only this run could have claimed the turn for completion, so the row tells. It is read under the owner's lock: a
        COMMIT that is still under way holds that, and whoever has it comes after.
        """
        give_up_at = time.monotonic() + LEARN_SECONDS
        while True:
            try:
                return transaction(self.engine, lambda unit: ending_of(unit.connection, turn.id), owner=turn.owner)
            except StorageFailed:
                if time.monotonic() > give_up_at or cancel.wait(LEARN_AGAIN_SECONDS):
                    raise CommitUnknown from None


def reason_of(failure: Exception) -> Reason:
    """The code a turn records for what went wrong."""
    if isinstance(failure, EndedBadly):
        return failure.reason
    return next((reason for kind, reason in _REASONS if isinstance(failure, kind)), Reason.INTERNAL)


_REASONS: tuple[tuple[type[Exception], Reason], ...] = (
    (ModelBusy, Reason.BUSY),
    (ModelUnreachable, Reason.UNREACHABLE),
    (ModelRejected, Reason.REJECTED),
    (ModelError, Reason.BROKEN),
    (TimeoutError, Reason.TIME_LIMIT),
    (StorageFailed, Reason.STORAGE),
    (OwnerGone, Reason.ERASED),
)


def _retry_at(failure: Exception | None) -> datetime | None:
    """When a busy model takes messages again, if it said so."""
    if not isinstance(failure, ModelBusy) or failure.retry_after_seconds is None:
        return None
    return datetime.now(UTC) + timedelta(seconds=min(failure.retry_after_seconds, 86_400))
