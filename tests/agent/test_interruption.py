"""The scope that turns a wish to end into an ordinary exception, in every order in which the two can meet."""

import asyncio
from collections.abc import Callable

import pytest

from agent.errors import ModelBusy, ModelFault, TurnInterrupted
from agent.interruption import Interruption
from agent.outcome import Outcome
from memory_core.errors import TransactionCancelled
from tests.agent.turning import soon


class Body:
    """A task inside the scope that waits for `going_on`; then it raises, or returns, what it was told to."""

    def __init__(self, interruption: Interruption, *, error: Exception | None = None, holds_out: bool = False) -> None:
        self.interruption = interruption
        self.inside = asyncio.Event()
        self.going_on = asyncio.Event()
        self.saw_cancel = False
        self.cancels_left = -1
        self.task = asyncio.ensure_future(self._run(error, holds_out))

    async def _run(self, error: Exception | None, holds_out: bool) -> str:
        try:
            async with self.interruption:
                self.inside.set()
                while not self.going_on.is_set():
                    try:
                        await self.going_on.wait()
                    except asyncio.CancelledError:
                        self.saw_cancel = True
                        if not holds_out:
                            raise
                if error is not None:
                    raise error
            return "went well"
        finally:
            task = asyncio.current_task()
            assert task is not None
            self.cancels_left = task.cancelling()


async def ended(body: Body) -> str | type[BaseException]:
    """What the body returned, or the class of what it raised."""
    await soon(asyncio.wait([body.task]))
    if body.task.cancelled():
        return asyncio.CancelledError
    error = body.task.exception()
    return body.task.result() if error is None else type(error)


@pytest.mark.parametrize("outcome", [Outcome.STOPPED, Outcome.INTERRUPTED])
async def test_a_wish_before_the_scope_keeps_its_body_from_running(outcome: Outcome) -> None:
    """A Stop that comes before the model was asked."""
    interruption = Interruption()
    interruption.interrupt(outcome)

    with pytest.raises(TurnInterrupted) as interrupted:
        async with interruption:
            pytest.fail("ran")

    assert interrupted.value.outcome is outcome


async def test_a_wish_ends_what_is_awaited_inside() -> None:
    """The body sees an ordinary cancellation; outside of the scope there is none any more."""
    body = Body(Interruption())
    await body.inside.wait()

    body.interruption.interrupt(Outcome.STOPPED)

    assert await ended(body) is TurnInterrupted
    assert body.saw_cancel
    assert body.cancels_left == 0


async def test_a_wish_after_the_scope_does_nothing() -> None:
    """The turn has ended; whoever runs in that task afterwards is not disturbed."""
    interruption = Interruption()
    async with interruption:
        pass

    interruption.interrupt(Outcome.STOPPED)

    await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_the_first_wish_counts() -> None:
    """A Stop, then the client's going: the turn was stopped, and cancelled once."""
    body = Body(Interruption())
    await body.inside.wait()

    body.interruption.interrupt(Outcome.STOPPED)
    body.interruption.interrupt(Outcome.INTERRUPTED)

    assert await ended(body) is TurnInterrupted
    assert body.interruption.outcome is Outcome.STOPPED
    assert body.cancels_left == 0


@pytest.mark.invariant("I15")
async def test_a_wish_that_comes_too_late_changes_nothing() -> None:
    """The body was awaiting a commit to its end, and the commit won: the scope is left as if nobody had asked."""
    body = Body(Interruption(), holds_out=True)
    await body.inside.wait()

    body.interruption.interrupt(Outcome.STOPPED)
    body.going_on.set()

    assert await ended(body) == "went well"
    assert body.cancels_left == 0


@pytest.mark.invariant("I15")
async def test_a_commit_that_the_wish_cancelled_is_an_interruption() -> None:
    """The body was awaiting a commit to its end, and the cancel won."""
    body = Body(Interruption(), holds_out=True, error=TransactionCancelled())
    await body.inside.wait()

    body.interruption.interrupt(Outcome.STOPPED)
    body.going_on.set()

    assert await ended(body) is TurnInterrupted
    assert body.cancels_left == 0


async def test_another_error_at_the_same_moment_stays_what_it_is() -> None:
    """A model that failed just then has failed."""
    body = Body(Interruption(), holds_out=True, error=ModelBusy(ModelFault.BUSY))
    await body.inside.wait()

    body.interruption.interrupt(Outcome.STOPPED)
    body.going_on.set()

    assert await ended(body) is ModelBusy
    assert body.cancels_left == 0


def interrupt(body: Body) -> None:
    body.interruption.interrupt(Outcome.STOPPED)


def cancel(body: Body) -> None:
    body.task.cancel()


@pytest.mark.parametrize(
    "steps", [[cancel], [cancel, interrupt], [interrupt, cancel]], ids=["alone", "cancel first", "wish first"]
)
async def test_a_cancellation_of_somebody_else_passes(steps: list[Callable[[Body], None]]) -> None:
    """A closing loop cancels the task: that is never taken for a wish, whichever of the two comes first."""
    body = Body(Interruption())
    await body.inside.wait()

    for step in steps:
        step(body)

    assert await ended(body) is asyncio.CancelledError


async def test_a_time_limit_inside_keeps_its_own_meaning() -> None:
    """`asyncio.timeout` counts cancellations as the scope does; the two are never mixed up."""

    async def run() -> None:
        async with Interruption(), asyncio.timeout(0):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await run()


async def test_a_wish_during_a_time_limit_is_a_wish() -> None:
    """The limit is still running when the Stop comes."""
    interruption, inside = Interruption(), asyncio.Event()

    async def run() -> None:
        async with interruption, asyncio.timeout(60):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(run())
    await inside.wait()
    interruption.interrupt(Outcome.STOPPED)

    with pytest.raises(TurnInterrupted):
        await soon(task)
