"""Begin, cut before each of its statements and before COMMIT: nothing, or an interrupted turn, never a running one."""

import asyncio

import anyio
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from agent.liveness import Running
from agent.outcome import Outcome
from memory_core.database.tables import owners, turns
from memory_core.errors import StorageFailed
from tests.agent.database_steps import Cancellations, DatabaseSteps, break_line
from tests.agent.turning import (
    WAIT_SECONDS,
    House,
    listen,
    says,
    turns_still_running,
)
from tests.database import rows

BEGIN = "agent.turn_desk.begin_turn"


def opened(house: House, scope: anyio.CancelScope, subject: str) -> asyncio.Task[None]:
    """A route that opens a turn and hands it on; what it opened is read to the end."""

    async def open_and_read() -> None:
        with scope:
            running = await house.running.open(house.request("Hello.", subject=subject))
            try:
                await listen(running)
            finally:
                running.interrupt(Outcome.INTERRUPTED)
                with anyio.CancelScope(shield=True):
                    await running.ended()

    return asyncio.create_task(open_and_read())


@pytest.mark.invariant("I12")
@pytest.mark.invariant("I13")
@pytest.mark.parametrize("how", ["Task.cancel", "anyio"])
async def test_a_client_that_goes_at_any_step_of_begin_leaves_no_running_turn(
    house: House, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Either nothing was stored, or an interrupted turn; the model is not asked."""
    loop, cancels = asyncio.get_running_loop(), Cancellations(monkeypatch)
    steps = DatabaseSteps(house.engine, monkeypatch, BEGIN)
    house.model.play(*says("Hello."))
    await house.say("Hello.")
    count = len(steps.taken)
    for number in range(1, count + 1):
        scope = anyio.CancelScope()
        task = opened(house, scope, f"person {number}")

        def cancel(connection: Connection, task: asyncio.Task[None] = task, scope: anyio.CancelScope = scope) -> None:
            loop.call_soon_threadsafe(task.cancel if how == "Task.cancel" else scope.cancel)
            cancels.wait_set()

        steps.before(number, cancel)
        async with asyncio.timeout(WAIT_SECONDS):
            await asyncio.wait([task])

        assert steps.acted.is_set()
        assert turns_still_running(house.engine) == []
        assert house.running.ids == ()
    outcomes = [row["outcome"] for row in rows(house.engine, sa.select(turns.c.outcome).order_by(turns.c.started_at))]
    assert outcomes == [Outcome.COMPLETED, Outcome.INTERRUPTED]  # the second: cancelled when COMMIT was on its way
    assert house.model.counters.requests == 1


@pytest.mark.invariant("I12")
@pytest.mark.invariant("I14")
async def test_a_connection_that_breaks_at_any_step_of_begin_begins_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message is refused for want of storage; nothing is stored, nothing runs, the model is not asked."""
    steps = DatabaseSteps(house.engine, monkeypatch, BEGIN)
    house.model.play(*says("Hello."))
    await house.say("Hello.")
    for number in range(1, len(steps.taken) + 1):
        steps.before(number, break_line)

        with pytest.raises(StorageFailed):
            await house.running.open(house.request("Hello.", subject=f"person {number}"))

        assert steps.acted.is_set()
        assert house.running.now() == Running(())
    assert len(rows(house.engine, sa.select(turns))) == len(rows(house.engine, sa.select(owners))) == 1
    assert house.model.counters.requests == 1
