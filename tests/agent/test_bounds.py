"""No wait without an end: a lock, a silent database and a full pool never hold a cancelled turn, or a shutdown."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from agent.outcome import Outcome, Reason
from agent.process import Process
from agent.running import RunningTurn
from memory_core.database.engine import make_engine
from memory_core.database.tables import owners
from memory_core.database.transaction import Limits
from memory_core.database.worker import Workers
from tests.agent.turning import (
    House,
    adding,
    assert_nothing_saved,
    in_thread,
    listen,
    open_house,
    remember,
    says,
    soon,
    stages,
    turn_row,
    turns_still_running,
)
from tests.database import OrganizationForTests
from tests.fakes.database_proxy import DatabaseProxy
from tests.fakes.model_server import Gate, ModelServer, gate
from tests.memory_core.database.waiting import until_locked

ENTRY = "Likes tea."
#: A cancelled wait ends within milliseconds, and then the lock's own timeout is waited for once. Machines are busy.
AT_ONCE_SECONDS = 5.0
#: With a database that answers nothing: a cancel that is not heard, a line that is cut, a new one that is not made.
SILENT_SECONDS = 20.0


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


@contextmanager
def a_held_owner(engine: Engine) -> Iterator[None]:
    """Somebody has locked every owner's row, and takes their time."""
    with engine.connect() as holder:
        holder.execute(sa.select(owners.c.id).with_for_update())
        yield
        holder.rollback()


@pytest.mark.invariant("I37")
@pytest.mark.invariant("I18")
async def test_a_commit_that_waits_for_a_lock_can_be_stopped(house: House, short_waits: Limits) -> None:
    """The turn ends at once for its reader; the end is recorded as soon as the lock is free."""
    stages(house.model, adding(ENTRY))
    running = await house.running.open(house.request())
    with a_held_owner(house.engine):
        await in_thread(lambda: until_locked(house.engine))
        with within(AT_ONCE_SECONDS):
            running.interrupt(Outcome.STOPPED)
            told = await listen(running)
    await in_thread(house.desk.record_later)

    assert told.ending.outcome is Outcome.STOPPED
    assert_nothing_saved(house.engine, running.turn.id, ENTRY)
    assert turn_row(house.engine, running.turn.id)["outcome"] == Outcome.STOPPED


@pytest.mark.invariant("I37")
async def test_a_commit_that_is_not_stopped_gives_up_waiting(house: House, short_waits: Limits) -> None:
    """The lock's timeout ends it: failed for want of storage, told, and recorded later."""
    stages(house.model, adding(ENTRY))
    turn = await house.begin()
    with a_held_owner(house.engine), within(AT_ONCE_SECONDS):
        events = [event async for event in house.run(turn)]
    await in_thread(house.desk.record_later)

    assert events
    assert_nothing_saved(house.engine, turn.id, ENTRY)
    assert turn_row(house.engine, turn.id)["reason"] == Reason.STORAGE


@pytest.mark.invariant("I37")
@pytest.mark.invariant("I13")
async def test_a_begin_that_waits_for_a_lock_can_be_cancelled(house: House) -> None:
    """With the ordinary, longer timeouts: the client goes, and nothing was stored."""
    remember(house.engine, house.owner(), ENTRY)
    with a_held_owner(house.engine):
        opening = asyncio.create_task(house.running.open(house.request()))
        await in_thread(lambda: until_locked(house.engine))
        with within(2.0):
            opening.cancel()
            await asyncio.wait([opening])
    assert opening.cancelled()
    assert turns_still_running(house.engine) == []
    assert house.running.ids == ()


@pytest.mark.invariant("I37")
@pytest.mark.invariant("I13")
async def test_a_turn_in_mid_stream_needs_no_thread_and_no_connection(
    model: ModelServer, engine: Engine, organization: OrganizationForTests
) -> None:
    """Twenty answers wait for their model on one thread and one connection; a twenty-first begins and ends."""
    held = Gate()
    async with open_house(engine, organization, model, threads=1) as house:
        for _ in range(20):
            model.play(gate(held), *says("Hello."))
        running = [await house.running.open(house.request(subject=str(number))) for number in range(20)]
        await model.reached(open=20)
        assert "Current Checked out connections: 0" in engine.pool.status()
        model.play(*says("Hello."))

        told = await house.say(subject="another")

        assert told.ending.outcome is Outcome.COMPLETED
        held.open()
        for one in running:
            await listen(one)


@pytest.fixture
async def behind_proxy(
    model: ModelServer, organization: OrganizationForTests, database_url: str, tmp_path: Path
) -> AsyncIterator[tuple[House, DatabaseProxy]]:
    """A process whose database can fall silent: nothing passes any more, and connections stay open."""
    with DatabaseProxy(database_url, tmp_path) as proxy:
        through = make_engine(proxy.url, pool_size=4)
        async with open_house(through, organization, model, threads=4) as house:
            yield house, proxy
        through.dispose()


async def held_turns(house: House, count: int) -> list[RunningTurn]:
    for _ in range(count):
        house.model.play(gate(Gate()))
    running = [await house.running.open(house.request(subject=str(number))) for number in range(count)]
    await house.model.reached(open=count)
    return running


@pytest.mark.slow
@pytest.mark.invariant("I37")
async def test_a_turn_ends_in_time_while_the_database_is_silent(
    behind_proxy: tuple[House, DatabaseProxy], engine: Engine, short_waits: Limits
) -> None:
    """Stopped in mid-stream: the model is left alone at once, the reader hears of the end, the record follows."""
    house, proxy = behind_proxy
    [running] = await held_turns(house, 1)
    proxy.freeze()
    with within(SILENT_SECONDS):
        running.interrupt(Outcome.STOPPED)
        await house.model.reached(aborted=1, within_seconds=2)
        told = await listen(running, seconds=2 * SILENT_SECONDS)
    proxy.thaw()

    assert told.ending.outcome is Outcome.STOPPED
    assert list(house.desk.unrecorded) == [running.turn.id]
    await in_thread(house.desk.record_later)
    assert turn_row(engine, running.turn.id)["outcome"] == Outcome.STOPPED


@pytest.mark.slow
@pytest.mark.invariant("I37")
@pytest.mark.invariant("I14")
async def test_a_commit_ends_in_time_when_the_database_falls_silent(
    behind_proxy: tuple[House, DatabaseProxy], engine: Engine, short_waits: Limits
) -> None:
    """Nobody stops it: it fails for want of storage, within the bounds of its waits; later the truth is recorded."""
    house, proxy = behind_proxy
    held = Gate()
    house.model.play(gate(held), *says("Hello."))
    running = await house.running.open(house.request())
    await house.model.reached(open=1)
    proxy.freeze()
    with within(2 * SILENT_SECONDS):
        held.open()
        told = await listen(running, seconds=2 * SILENT_SECONDS)
    proxy.thaw()

    assert (told.ending.outcome, told.ending.reason) == (Outcome.FAILED, Reason.STORAGE)
    await in_thread(house.desk.record_later)
    assert turn_row(engine, running.turn.id)["outcome"] == Outcome.FAILED


@pytest.mark.invariant("I37")
async def test_a_shutdown_does_not_wait_for_ever(
    behind_proxy: tuple[House, DatabaseProxy], engine: Engine, short_waits: Limits
) -> None:
    """More turns than threads and a silent database: the models are left alone, the rest is given up in time."""
    house, proxy = behind_proxy
    running = await held_turns(house, 12)
    proxy.freeze()
    with within(3.0):
        await house.running.close(within_seconds=0.5)
    await house.model.reached(aborted=12, within_seconds=2)
    assert len(turns_still_running(engine)) == 12
    proxy.thaw()

    for one in running:
        await soon(one.ended())
    await in_thread(house.desk.record_later)
    assert turns_still_running(engine) == []


@pytest.mark.slow
@pytest.mark.invariant("I37")
async def test_a_process_closes_in_time_while_the_database_is_silent(
    behind_proxy: tuple[House, DatabaseProxy],
    engine: Engine,
    short_waits: Limits,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Heart, sweep and ear are in the middle of something; turns wait to be recorded: it closes all the same."""
    monkeypatch.setattr("agent.process.BEAT_SECONDS", 0)
    house, proxy = behind_proxy
    process = Process(house.process_id, house.engine, house.workers, Workers(1), house.running, proxy.url)
    await process.start()
    running = await held_turns(house, 3)
    proxy.freeze()
    with within(2 * SILENT_SECONDS):
        await process.close()
    proxy.thaw()
    for one in running:
        await soon(one.ended())
