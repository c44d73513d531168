"""One process alive: it is heard, it hears what others have ended, ends in good order, and no fault stops its heart."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from agent.begin import BegunTurn
from agent.discard import discard_turn, stop_turn
from agent.events import TextDelta
from agent.liveness import Running
from agent.outcome import Ending, Outcome, Reason
from agent.process import Process
from memory_core.database.engine import make_engine
from memory_core.database.tables import processes, turns
from memory_core.database.worker import Workers
from memory_core.errors import StorageFailed
from memory_core.ids import new_id
from tests.agent.turning import (
    WAIT_SECONDS,
    House,
    answers_of,
    in_thread,
    listen,
    listen_until,
    says,
    soon,
    turn_row,
    turns_still_running,
)
from tests.database import rows
from tests.fakes.model_server import Gate, gate, text
from tests.memory_core.database.waiting import _until

LISTENING = "query LIKE 'LISTEN%' AND state = 'idle'"
NOWHERE = "postgresql://postgres@/nowhere?host=%2Fnonexistent"


@asynccontextmanager
async def alive(house: House, direct_url: str) -> AsyncIterator[Process]:
    """The house's process, started and in the end closed."""
    process = Process(house.process_id, house.engine, house.workers, Workers(1), house.running, direct_url)
    await process.start()
    try:
        yield process
    finally:
        await soon(process.close())


@pytest.fixture
def quiet_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """No heartbeat comes by itself within a test."""
    monkeypatch.setattr("agent.process.BEAT_SECONDS", 3600)


@pytest.fixture
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats come one soon after the other; in between the others have their turn."""
    monkeypatch.setattr("agent.process.BEAT_SECONDS", 0.02)
    monkeypatch.setattr("agent.process._LISTEN_AGAIN_SECONDS", 0.02)


async def until_listening(engine: Engine) -> None:
    await in_thread(lambda: _until(engine, LISTENING, 1))


async def until(claim: Callable[[], bool]) -> None:
    """Ask the database again and again until it agrees, within bounds."""

    def ask() -> None:
        while not claim():
            pass

    await asyncio.wait_for(asyncio.to_thread(ask), WAIT_SECONDS)


@pytest.mark.invariant("I15")
async def test_a_stop_from_another_process_is_heard_at_once(house: House, database_url: str, quiet_beats: None) -> None:
    """No heartbeat in between: the notice alone ends the turn here, and frees the model."""
    held, key = Gate(), new_id("key")
    house.model.play(text("Half of "), gate(held))
    elsewhere = make_engine(database_url, pool_size=1)
    async with alive(house, database_url):
        await until_listening(house.engine)
        running = await house.running.open(house.request(key=key))
        told = await listen_until(running, TextDelta)

        await in_thread(lambda: stop_turn(elsewhere, house.owner(), key))
        await listen(running, told)

    await house.model.reached(aborted=1, within_seconds=2)
    assert told.ending.outcome is Outcome.STOPPED
    assert answers_of(house.engine, running.turn.id) == ["Half of "]
    elsewhere.dispose()


@pytest.mark.invariant("I15")
async def test_a_notice_that_was_missed_is_made_up_for_by_the_next_beat(house: House, quick_beats: None) -> None:
    """No connection to listen on at all: the heartbeat's answer names the turns that others have ended."""
    key = new_id("key")
    house.model.play(gate(Gate()))
    async with alive(house, NOWHERE):
        running = await house.running.open(house.request(key=key))
        await house.model.reached(open=1)

        await in_thread(lambda: stop_turn(house.engine, house.owner(), key))
        told = await listen(running)

    assert told.ending.outcome is Outcome.STOPPED


async def test_a_listening_connection_that_broke_is_opened_again(
    house: House, database_url: str, monkeypatch: pytest.MonkeyPatch, quiet_beats: None
) -> None:
    """The server hung up on it; a little later notices are heard again."""
    monkeypatch.setattr("agent.process._LISTEN_AGAIN_SECONDS", 0)
    key = new_id("key")
    house.model.play(gate(Gate()))
    listeners = sa.text(f"SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND {LISTENING}")
    async with alive(house, database_url):
        await until_listening(house.engine)
        [first] = [row["pid"] for row in rows(house.engine, listeners)]
        with psycopg.connect(database_url, autocommit=True) as outside:
            outside.execute("SELECT pg_terminate_backend(%s, 5000)", [first])
        await until(lambda: any(row["pid"] != first for row in rows(house.engine, listeners)))
        running = await house.running.open(house.request(key=key))
        await house.model.reached(open=1)

        await in_thread(lambda: stop_turn(house.engine, house.owner(), key))

        assert (await listen(running)).ending.outcome is Outcome.STOPPED


async def test_a_process_that_closes_ends_its_turns_and_goes(house: House, database_url: str) -> None:
    """Each turn is interrupted with the text it has, on record before the process's row is gone; nothing runs on."""
    for number in range(5):
        house.model.play(text(f"Answer {number}, half"), gate(Gate()))
    async with alive(house, database_url):
        assert [row["id"] for row in rows(house.engine, sa.select(processes.c.id))] == [house.process_id]
        running = [await house.running.open(house.request(subject=str(number))) for number in range(5)]
        told = [await listen_until(one, TextDelta) for one in running]

    await house.model.reached(aborted=5, within_seconds=2)
    for one, heard in zip(running, told, strict=True):
        await listen(one, heard)
        assert heard.ending.outcome is Outcome.INTERRUPTED
        assert answers_of(house.engine, one.turn.id) == [heard.text]
    assert rows(house.engine, sa.select(processes)) == []
    assert house.running.ids == ()


async def test_a_turn_that_begins_while_the_process_closes_is_interrupted(house: House, database_url: str) -> None:
    """It was on its way in: it ends as the others do, and the model is not kept."""
    house.model.play(gate(Gate()))
    async with alive(house, database_url):
        pass

    told = await house.say()

    assert told.ending.outcome is Outcome.INTERRUPTED
    assert turns_still_running(house.engine) == []


async def test_no_fault_stops_the_heart(
    house: House, monkeypatch: pytest.MonkeyPatch, database_url: str, quick_beats: None
) -> None:
    """A database that is away, and something nobody thought of: the next beat comes all the same."""
    beaten = asyncio.Event()
    faults: list[Exception] = [StorageFailed(), ZeroDivisionError("Kwagga"), ZeroDivisionError("Kwagga")]
    told: list[str] = []
    monkeypatch.setattr("agent.telemetry.fault", lambda name, error, **more: told.append(type(error).__name__))
    async with alive(house, database_url):
        loop, now = asyncio.get_running_loop(), house.running.now

        def fail_first() -> Running:
            if faults:
                raise faults.pop()
            loop.call_soon_threadsafe(beaten.set)
            return now()

        monkeypatch.setattr(house.running, "now", fail_first)
        await soon(beaten.wait())

    assert told == ["ZeroDivisionError", "ZeroDivisionError"]


async def test_endings_that_could_not_be_recorded_are_recorded_with_a_sweep(
    house: House, monkeypatch: pytest.MonkeyPatch, database_url: str, quick_beats: None
) -> None:
    """Meanwhile the turn counts as running, and the heartbeat answers for it."""
    fails = True

    def sometimes(*arguments: Any, **named: Any) -> Ending:
        if fails:
            raise StorageFailed("08006")
        return discard_turn(*arguments, **named)

    monkeypatch.setattr("agent.turn_desk.discard_turn", sometimes)
    house.model.play(*says("Half an", reason="length"))
    async with alive(house, database_url):
        told = await house.say()
        assert list(house.desk.unrecorded) == [told.turn.id]
        await until(lambda: told.turn.id in rows(house.engine, sa.select(processes.c.turn_ids))[0]["turn_ids"])
        assert turn_row(house.engine, told.turn.id)["outcome"] == Outcome.RUNNING
        fails = False
        await until(lambda: turn_row(house.engine, told.turn.id)["outcome"] != Outcome.RUNNING)

    row = turn_row(house.engine, told.turn.id)
    assert (row["outcome"], row["reason"]) == (Outcome.FAILED, Reason.TOO_LONG)
    assert answers_of(house.engine, told.turn.id) == ["Half an"]
    assert house.desk.unrecorded == {}


async def test_endings_are_recorded_at_the_very_end_too(
    house: House, monkeypatch: pytest.MonkeyPatch, database_url: str, quiet_beats: None
) -> None:
    """The process closes before a sweep has come: it leaves the record, not an interrupted turn."""
    fails = [True]

    def once(*arguments: Any, **named: Any) -> Ending:
        if fails:
            fails.clear()
            raise StorageFailed("08006")
        return discard_turn(*arguments, **named)

    monkeypatch.setattr("agent.turn_desk.discard_turn", once)
    house.model.play(*says("Half an", reason="length"))
    async with alive(house, database_url):
        told = await house.say()
        assert list(house.desk.unrecorded) == [told.turn.id]

    assert turn_row(house.engine, told.turn.id)["reason"] == Reason.TOO_LONG


async def test_an_ending_the_database_refuses_is_not_in_the_way_of_the_others(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One owner's row is held for long: the endings of everybody else are recorded."""
    away = {"everybody"}

    def for_some(engine: Engine, turn: BegunTurn, *arguments: Any, **named: Any) -> Ending:
        if away & {"everybody", turn.owner.subject}:
            raise StorageFailed("55P03")
        return discard_turn(engine, turn, *arguments, **named)

    monkeypatch.setattr("agent.turn_desk.discard_turn", for_some)
    for subject in ("ada", "bob", "eve"):
        house.model.play(*says("Half an", reason="length"))
        await house.say(subject=subject)
    away = {"ada"}

    await in_thread(house.desk.record_later)

    assert len(house.desk.unrecorded) == 1
    [left] = turns_still_running(house.engine)
    assert list(house.desk.unrecorded) == [left]
    away = {"nobody"}
    await in_thread(house.desk.record_later)
    assert [row["outcome"] for row in rows(house.engine, sa.select(turns.c.outcome))] == [Outcome.FAILED] * 3
