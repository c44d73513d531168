"""Commit and discard, cut before every one of their statements and before COMMIT: all or nothing, and never running for
ever.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import anyio
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from agent.begin import BegunTurn
from agent.commit import Answer, commit_turn
from agent.events import TurnEnded, TurnEvent
from agent.interruption import Interruption
from agent.liveness import leave
from agent.outcome import Ending, MemoryOutcome, Outcome, Reason
from memory_core.database.engine import make_engine
from memory_core.database.tables import conversations, owners, turns
from memory_core.database.transaction import Limits
from memory_core.errors import RefusalCode, StorageFailed
from memory_core.operations import parse_operations
from tests.agent.database_steps import Cancellations, DatabaseSteps, break_line
from tests.agent.turning import (
    WAIT_SECONDS,
    House,
    Told,
    adding,
    answers_of,
    assert_agrees,
    assert_nothing_saved,
    in_thread,
    memory_rows,
    open_house,
    receipts_of,
    remember,
    remembered,
    says,
    soon,
    stages,
    turn_row,
)
from tests.database import OrganizationForTests, rows
from tests.fakes.database_proxy import DatabaseProxy
from tests.fakes.model_server import ModelServer
from tests.memory_core.database.waiting import until_locked

COMMIT, DISCARD = "agent.turn_desk.commit_turn", "agent.turn_desk.discard_turn"


def entry(number: int) -> str:
    """What the n-th turn wants to be remembered."""
    return f"Fact number {number:03}."


async def steps_of(house: House, steps: DatabaseSteps) -> int:
    """How many steps the transaction has when nothing is in its way."""
    steps.taken.clear()
    stages(house.model, adding(entry(0)))
    told = await house.say("Remember that.")
    assert told.ending.memory.outcome is MemoryOutcome.COMMITTED
    assert steps.taken[-1] == "COMMIT", steps.taken
    return len(steps.taken)


class Reader:
    """Somebody who reads a turn in a task of their own, and can be cancelled in three ways."""

    def __init__(self, house: House, turn: BegunTurn) -> None:
        self.house = house
        self.turn = turn
        self.events: list[TurnEvent] = []
        self.interruption = Interruption()
        self.scope = anyio.CancelScope()
        self.task = asyncio.create_task(self._read())

    @property
    def told(self) -> Ending | None:
        """What the reader was told at the end, if it was still there."""
        last = self.events[-1]
        return last.ending if isinstance(last, TurnEnded) else None

    async def gone(self) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            await asyncio.wait([self.task])
        assert self.task.cancelled() or self.task.exception() is None

    async def _read(self) -> None:
        with self.scope:
            async with aclosing(self.house.run(self.turn, self.interruption)) as events:
                async for event in events:
                    self.events.append(event)


CUTS: dict[str, Callable[[Reader], object]] = {
    "Task.cancel": lambda reader: reader.task.cancel(),
    "anyio": lambda reader: reader.scope.cancel(),
    "stop": lambda reader: reader.interruption.interrupt(Outcome.STOPPED),
    "client gone": lambda reader: reader.interruption.interrupt(Outcome.INTERRUPTED),
}


@pytest.mark.invariant("I12")
@pytest.mark.invariant("I15")
@pytest.mark.invariant("I18")
@pytest.mark.parametrize("how", CUTS)
async def test_a_cancel_before_any_step_of_a_commit_wins_and_at_commit_it_is_too_late(
    house: House, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Up to the last moment nothing is stored; from COMMIT on all of it is; the reader is told what is stored."""
    loop, cancels = asyncio.get_running_loop(), Cancellations(monkeypatch)
    steps = DatabaseSteps(house.engine, monkeypatch, COMMIT)
    count = await steps_of(house, steps)
    for number in range(1, count + 1):
        stages(house.model, adding(entry(number)))
        reader = Reader(house, await house.begin("Remember that."))

        def cancel(connection: Connection, reader: Reader = reader) -> None:
            loop.call_soon_threadsafe(CUTS[how], reader)
            cancels.wait_set()

        steps.before(number, cancel)
        await reader.gone()

        assert steps.acted.is_set()
        stored = turn_row(house.engine, reader.turn.id)
        assert (stored["outcome"] == Outcome.COMPLETED) == (number == count)
        if reader.told is not None:
            assert_agrees(house.engine, reader.turn.id, reader.told, entry(number))
        elif number < count:
            assert_nothing_saved(house.engine, reader.turn.id, entry(number))
    assert remembered(house.engine, house.owner()).user == (entry(0), entry(count))


@pytest.mark.invariant("I12")
@pytest.mark.invariant("I14")
async def test_a_connection_that_breaks_before_any_step_of_a_commit_saves_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn has failed for want of storage, and says so; its text is not kept, for nobody can promise that."""
    steps = DatabaseSteps(house.engine, monkeypatch, COMMIT)
    count = await steps_of(house, steps)
    for number in range(1, count + 1):
        stages(house.model, adding(entry(number)))
        steps.before(number, break_line)

        told = await house.say("Remember that.")

        assert steps.acted.is_set()
        assert (told.ending.outcome, told.ending.reason) == (Outcome.FAILED, Reason.STORAGE)
        assert told.ending.memory.reason is RefusalCode.STORAGE
        assert_agrees(house.engine, told.turn.id, told.ending, entry(number))
        assert answers_of(house.engine, told.turn.id) == []
    assert remembered(house.engine, house.owner()).user == (entry(0),)


def an_answer(number: int) -> Answer:
    """A reply with something staged, as the commit takes it."""
    batch = parse_operations({"operations": [adding(entry(number))]})
    return Answer("Noted.", "stop", (batch,), operation_count=1)


@pytest.mark.invariant("I14")
async def test_a_process_that_dies_at_any_step_of_a_commit_leaves_nothing_half_done(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is left to record anything: the turn is running without an answer or a change, until it is swept."""
    monkeypatch.setattr("tests.agent.test_database_steps.commit_turn", commit_turn)
    steps = DatabaseSteps(house.engine, monkeypatch, "tests.agent.test_database_steps.commit_turn")
    count, number = 0, 0
    while number <= count:
        turn = await house.begin("Remember that.")
        if number:
            steps.before(number, break_line)

        def die(turn: BegunTurn = turn, number: int = number) -> Ending:
            return commit_turn(house.engine, turn, an_answer(number), memory_enabled=True, undo_hours=24)

        if number == 0:
            await in_thread(die)
            count = len(steps.taken)
        else:
            with pytest.raises(StorageFailed):
                await in_thread(die)
            assert turn_row(house.engine, turn.id)["outcome"] == Outcome.RUNNING
            assert (answers_of(house.engine, turn.id), receipts_of(house.engine, turn.id)) == ([], [])
            await in_thread(lambda: leave(house.engine, house.process_id))
            assert turn_row(house.engine, turn.id)["outcome"] == Outcome.INTERRUPTED
        assert remembered(house.engine, house.owner()).user == (entry(0),)
        number += 1
    assert count > 10
    house.model.play(*says("Here I am."))
    conversation = rows(house.engine, sa.select(conversations.c.id))[-1]["id"]
    assert (await house.say("And now?", conversation_id=conversation)).ending.outcome is Outcome.COMPLETED


@pytest.mark.invariant("I12")
@pytest.mark.parametrize("how", ["Task.cancel", "anyio"])
async def test_a_cancel_at_any_step_of_discarding_does_not_keep_the_end_from_being_recorded(
    house: House, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The turn was stopped already; whoever read it is torn down meanwhile; the ending is on record all the same."""
    loop, steps = asyncio.get_running_loop(), DatabaseSteps(house.engine, monkeypatch, DISCARD)
    count, number = 1, 0
    while number <= count:
        stages(house.model, adding(entry(number)))
        house.model._scripts[-1] = (*says("No")[:1], *says(reason="length")[1:])
        reader = Reader(house, await house.begin("Remember that."))

        def cancel(connection: Connection, reader: Reader = reader) -> None:
            loop.call_soon_threadsafe(CUTS[how], reader)

        steps.before(number, cancel)
        await reader.gone()

        count = len(steps.taken)
        assert steps.acted.is_set() == (number > 0)
        assert_nothing_saved(house.engine, reader.turn.id, entry(number))
        assert turn_row(house.engine, reader.turn.id)["reason"] == Reason.TOO_LONG
        assert house.desk.unrecorded == {}
        number += 1
    assert count > 4


@pytest.mark.invariant("I12")
@pytest.mark.invariant("I14")
async def test_an_ending_that_could_not_be_recorded_is_recorded_later(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks at each step of discarding: the reader is told at once, the record follows, once."""
    steps = DatabaseSteps(house.engine, monkeypatch, DISCARD)
    count, number = 1, 0
    while number <= count:
        house.model.play(*says("Half an ans", reason="length"))
        steps.before(number, break_line)

        told = await house.say("Tell me everything.")

        count = len(steps.taken) if number == 0 else count
        assert (told.ending.outcome, told.ending.reason) == (Outcome.FAILED, Reason.TOO_LONG)
        assert list(house.desk.unrecorded) == ([told.turn.id] if number else [])
        if number:
            assert turn_row(house.engine, told.turn.id)["outcome"] == Outcome.RUNNING
        await in_thread(house.desk.record_later)
        await in_thread(house.desk.record_later)
        assert house.desk.unrecorded == {}
        stored = turn_row(house.engine, told.turn.id)
        assert (stored["outcome"], stored["reason"]) == (Outcome.FAILED, Reason.TOO_LONG)
        assert answers_of(house.engine, told.turn.id) == ["Half an ans"]
        number += 1
    assert count > 4


@asynccontextmanager
async def house_behind_a_proxy(
    engine: Engine, organization: OrganizationForTests, model: ModelServer, database_url: str, folder: Path
) -> AsyncIterator[tuple[House, DatabaseProxy]]:
    """A process whose connections can be cut at a chosen moment; `engine` goes around the proxy."""
    with DatabaseProxy(database_url, folder) as proxy:
        through = make_engine(proxy.url, pool_size=8)
        async with open_house(through, organization, model) as house:
            yield house, proxy
        through.dispose()


@pytest.mark.invariant("I14")
async def test_a_commit_whose_answer_was_lost_is_read_again(
    engine: Engine,
    organization: OrganizationForTests,
    model: ModelServer,
    database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """COMMIT was done and nobody heard of it: the turn is completed, and so it is told."""
    async with house_behind_a_proxy(engine, organization, model, database_url, tmp_path) as (house, proxy):
        steps = DatabaseSteps(house.engine, monkeypatch, COMMIT)
        count = await steps_of(house, steps)
        stages(model, adding(entry(1)))
        steps.before(count, lambda connection: proxy.hang_up_after(b"COMMIT"))

        told = await house.say("Remember that.")

        assert proxy.hung_up.is_set()
        assert told.ending.outcome is Outcome.COMPLETED
        assert_agrees(engine, told.turn.id, told.ending, entry(1))
        assert remembered(engine, house.owner()).user == (entry(0), entry(1))


@pytest.mark.invariant("I14")
async def test_an_ending_that_was_recorded_unheard_stays_as_it_was(
    engine: Engine,
    organization: OrganizationForTests,
    model: ModelServer,
    database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Recording it again changes nothing: not the outcome, not the reason, not what is said of memory."""
    async with house_behind_a_proxy(engine, organization, model, database_url, tmp_path) as (house, proxy):
        steps = DatabaseSteps(house.engine, monkeypatch, DISCARD)
        stages(model, adding(entry(1)))
        model._scripts[-1] = says("Half an ans", reason="length")
        steps.before(1, lambda connection: proxy.hang_up_after(b"COMMIT"))
        told = await house.say("Remember that.")
        assert proxy.hung_up.is_set()
        first = turn_row(engine, told.turn.id)

        await in_thread(house.desk.record_later)

        assert first["memory_reason"] == RefusalCode.CUT_OFF
        assert turn_row(engine, told.turn.id) == first
        assert answers_of(engine, told.turn.id) == ["Half an ans"]


class TestMemoryAlone:
    """What keeps memory from being written, but not the answer from being kept."""

    @pytest.mark.invariant("I14")
    @pytest.mark.invariant("I22")
    async def test_a_lock_on_the_documents_costs_memory_only(
        self, house: House, short_waits: Limits, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Somebody holds the table: the answer is kept, memory is refused with the reason `storage`."""
        remember(house.engine, house.owner(), entry(0))
        before = memory_rows(house.engine)
        stages(house.model, adding(entry(1)))
        turn = await house.begin("Remember that.")
        with house.engine.connect() as holder:
            holder.execute(sa.text("LOCK TABLE remembrancer.agent_memory IN ACCESS EXCLUSIVE MODE"))
            async with aclosing(house.run(turn)) as events:
                told = Told(turn, [event async for event in events])
            holder.rollback()

        assert told.ending.outcome is Outcome.COMPLETED
        assert (told.ending.memory.outcome, told.ending.memory.reason) == (
            MemoryOutcome.REFUSED,
            RefusalCode.STORAGE,
        )
        assert answers_of(house.engine, turn.id) == ["Noted."]
        assert memory_rows(house.engine) == before

    @pytest.mark.invariant("I12")
    async def test_a_cancel_during_that_wait_is_a_cancel(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        """A statement that we end ourselves ends the turn; it is not taken for a slow database."""
        stages(house.model, adding(entry(1)))
        reader_turn = await house.begin("Remember that.")
        with house.engine.connect() as holder:
            holder.execute(sa.text("LOCK TABLE remembrancer.agent_memory IN ACCESS EXCLUSIVE MODE"))
            reader = Reader(house, reader_turn)
            await in_thread(lambda: until_locked(house.engine))
            reader.interruption.interrupt(Outcome.STOPPED)
            await reader.gone()
            holder.rollback()

        assert reader.told is not None
        assert reader.told.outcome is Outcome.STOPPED
        assert_nothing_saved(house.engine, reader_turn.id, entry(1))


@pytest.mark.invariant("I12")
async def test_an_erased_person_is_not_brought_back(house: House) -> None:
    """The owner goes in mid-turn: nothing of the turn is stored, nobody is created, and the end is told as failed."""
    stages(house.model, adding(entry(1)))
    turn = await house.begin("Remember that.")
    async with aclosing(house.run(turn)) as events:
        told = Told(turn, [await soon(anext(events))])
        with house.engine.begin() as connection:
            connection.execute(sa.delete(owners))
        told.events += [event async for event in events]

    assert (told.ending.outcome, told.ending.reason) == (Outcome.FAILED, Reason.ERASED)
    assert rows(house.engine, sa.select(owners)) == []
    assert rows(house.engine, sa.select(turns)) == []
