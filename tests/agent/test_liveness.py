"""Which turns are really running: beats and sweeps on the database's clock. Time passes as rows move into the past."""

import time
from contextlib import aclosing
from datetime import timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from agent.begin import BegunTurn
from agent.errors import TurnInProgress
from agent.liveness import BEAT_SECONDS, SILENT_SECONDS, Running, beat, leave, sweep
from agent.outcome import Outcome
from memory_core.database.tables import processes, turns
from tests.agent.turning import House, Told, adding, answers_of, in_thread, says, stages, turn_row, turns_still_running
from tests.database import rows

HERE, THERE = "prc_here", "prc_there"


def age(engine: Engine, seconds: float) -> None:
    """Everything that has happened so far happened so much earlier."""
    past = timedelta(seconds=seconds)
    with engine.begin() as connection:
        connection.execute(
            sa.update(processes).values(beat_at=processes.c.beat_at - past, started_at=processes.c.started_at - past)
        )
        connection.execute(sa.update(turns).values(started_at=turns.c.started_at - past))


def runs(*turn_ids: str, others: tuple[str, ...] = ()) -> Running:
    return Running(turn_ids, others)


def beats(house: House, process_id: str, *turn_ids: str) -> tuple[str, ...]:
    return beat(house.engine, process_id, lambda: runs(*turn_ids))


def outcome_of(house: House, turn: BegunTurn) -> str:
    return str(turn_row(house.engine, turn.id)["outcome"])


async def begun(house: House, process_id: str, **more: str) -> BegunTurn:
    return await house.begin(process_id=process_id, **more)


async def test_a_beat_is_written_on_the_databases_clock(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this machine takes for the time plays no part in it."""
    turn = await begun(house, HERE)
    monkeypatch.setattr(time, "time", lambda: 0.0)

    beats(house, HERE, turn.id)

    [row] = rows(house.engine, sa.select(processes, (sa.func.clock_timestamp() - processes.c.beat_at).label("since")))
    assert row["turn_ids"] == [turn.id]
    assert timedelta(0) <= row["since"] < timedelta(seconds=30)


async def test_a_beat_tells_which_turns_others_have_ended(house: House) -> None:
    """Only those: not the ones that still run, and not the ones whose end is still to be recorded."""
    mine = [await begun(house, HERE) for _ in range(3)]
    with house.engine.begin() as connection:
        ended = turns.c.id.in_([mine[0].id, mine[2].id])
        connection.execute(sa.update(turns).where(ended).values(outcome=Outcome.STOPPED))

    told = beat(house.engine, HERE, lambda: runs(mine[0].id, mine[1].id, others=(mine[2].id,)))

    assert told == (mine[0].id,)


async def test_a_turn_its_own_process_does_not_name_is_interrupted_after_one_interval(house: House) -> None:
    """Lost on the way, by a crash of its task: its process says so with its next beat. Others' turns are not its."""
    lost, named, unrecorded, theirs = [
        await begun(house, process, subject=str(number)) for number, process in enumerate((HERE, HERE, HERE, THERE))
    ]
    young = beat(house.engine, HERE, lambda: runs(named.id, others=(unrecorded.id,)))
    assert (young, outcome_of(house, lost)) == ((), Outcome.RUNNING)
    age(house.engine, BEAT_SECONDS + 1)

    beat(house.engine, HERE, lambda: runs(named.id, others=(unrecorded.id,)))

    assert outcome_of(house, lost) == Outcome.INTERRUPTED
    assert [outcome_of(house, turn) for turn in (named, unrecorded, theirs)] == [Outcome.RUNNING] * 3


async def test_a_beat_that_had_to_wait_does_not_end_a_turn_that_began_meanwhile(house: House) -> None:
    """What the process runs is asked after the clock: a turn that is younger than the clock's answer is left alone,
    though it is old enough by the time it is looked for.
    """
    turn = await begun(house, HERE)
    just_old_enough = sa.func.clock_timestamp() - timedelta(seconds=BEAT_SECONDS)

    def now() -> Running:
        with house.engine.begin() as connection:
            connection.execute(sa.update(turns).values(started_at=just_old_enough))
        return runs()

    beat(house.engine, HERE, now)
    assert outcome_of(house, turn) == Outcome.RUNNING

    beats(house, HERE)
    assert outcome_of(house, turn) == Outcome.INTERRUPTED


async def test_a_silent_process_loses_its_turns_and_a_beating_one_does_not(house: House) -> None:
    """However long a turn takes, it is its process's silence that counts."""
    theirs, mine = await begun(house, THERE), await begun(house, HERE, subject="bob")
    for process, turn in ((THERE, theirs), (HERE, mine)):
        beats(house, process, turn.id)
    age(house.engine, SILENT_SECONDS + 1)
    beats(house, HERE, mine.id)
    age(house.engine, BEAT_SECONDS + 1)
    beats(house, HERE, mine.id)

    assert await in_thread(lambda: sweep(house.engine, HERE)) == 1

    assert (outcome_of(house, theirs), outcome_of(house, mine)) == (Outcome.INTERRUPTED, Outcome.RUNNING)


async def test_a_process_that_has_never_beaten_is_judged_by_its_turns_start(house: House) -> None:
    """It died before its first beat, or is only just starting."""
    beats(house, HERE)
    age(house.engine, SILENT_SECONDS - BEAT_SECONDS)
    beats(house, HERE)
    old = await begun(house, THERE)
    age(house.engine, SILENT_SECONDS - 1)
    beats(house, HERE)
    young = await begun(house, THERE, subject="bob")
    assert await in_thread(lambda: sweep(house.engine, HERE)) == 0
    age(house.engine, 2)
    beats(house, HERE)

    assert await in_thread(lambda: sweep(house.engine, HERE)) == 1

    assert (outcome_of(house, old), outcome_of(house, young)) == (Outcome.INTERRUPTED, Outcome.RUNNING)


async def test_nobody_is_silent_to_themselves(house: House) -> None:
    """A process whose beats are late still knows what it runs."""
    mine = await begun(house, HERE)
    beats(house, HERE, mine.id)
    age(house.engine, 10 * SILENT_SECONDS)

    assert await in_thread(lambda: sweep(house.engine, HERE)) == 0

    assert outcome_of(house, mine) == Outcome.RUNNING


async def test_after_an_outage_everybody_is_given_an_interval_to_be_heard(house: House) -> None:
    """The database was away from all: whoever comes back first has heard nobody, and must not judge the others."""
    theirs, mine = await begun(house, THERE), await begun(house, HERE, subject="bob")
    for process, turn in ((THERE, theirs), (HERE, mine)):
        beats(house, process, turn.id)
    age(house.engine, 60)

    beats(house, HERE, mine.id)
    assert await in_thread(lambda: sweep(house.engine, HERE)) == 0
    assert outcome_of(house, theirs) == Outcome.RUNNING

    age(house.engine, BEAT_SECONDS + 1)
    beats(house, HERE, mine.id)
    assert await in_thread(lambda: sweep(house.engine, HERE)) == 1
    assert outcome_of(house, theirs) == Outcome.INTERRUPTED


async def test_the_next_message_does_not_wait_for_a_sweep(house: House) -> None:
    """A conversation whose process has died takes the next message as soon as that process counts as silent."""
    beats(house, house.process_id)
    age(house.engine, BEAT_SECONDS + 1)
    stuck = await begun(house, THERE)
    beats(house, THERE, stuck.id)
    beats(house, house.process_id)
    with pytest.raises(TurnInProgress):
        await house.begin("And now?", conversation_id=stuck.conversation_id)
    age(house.engine, SILENT_SECONDS - 1)
    beats(house, house.process_id)
    age(house.engine, 2)
    house.model.play(*says("Here I am."))

    told = await house.say("And now?", conversation_id=stuck.conversation_id)

    assert outcome_of(house, stuck) == Outcome.INTERRUPTED
    assert told.ending.outcome is Outcome.COMPLETED


async def test_rows_of_processes_that_are_long_gone_are_removed(house: House) -> None:
    """But not while a turn of theirs is still to be ended."""
    beats(house, THERE)
    beats(house, "prc_elsewhere")
    age(house.engine, 61 * SILENT_SECONDS)
    beats(house, HERE)

    await in_thread(lambda: sweep(house.engine, HERE))

    assert [row["id"] for row in rows(house.engine, sa.select(processes.c.id))] == [HERE]


async def test_a_process_that_leaves_leaves_nothing(house: House) -> None:
    """Its row and its running turns end with it; another's stay."""
    mine, theirs = await begun(house, HERE), await begun(house, THERE, subject="bob")
    for process, turn in ((HERE, mine), (THERE, theirs)):
        beats(house, process, turn.id)

    await in_thread(lambda: leave(house.engine, HERE))

    assert [row["id"] for row in rows(house.engine, sa.select(processes.c.id))] == [THERE]
    assert turns_still_running(house.engine) == [theirs.id]


@pytest.mark.invariant("I15")
async def test_a_turn_that_was_swept_while_it_ran_cannot_commit(house: House) -> None:
    """Its process was unheard for too long: the sweep has won; the text is attached, memory is not written."""
    stages(house.model, adding("Likes tea."))
    turn = await begun(house, THERE)
    beats(house, HERE)
    age(house.engine, SILENT_SECONDS + 1)
    beats(house, HERE)
    age(house.engine, BEAT_SECONDS + 1)
    beats(house, HERE)
    await in_thread(lambda: sweep(house.engine, HERE))

    async with aclosing(house.run(turn)) as events:
        told = Told(turn, [event async for event in events])

    assert told.ending.outcome is Outcome.INTERRUPTED
    assert told.ending.memory.reason == "interrupted"
    row = turn_row(house.engine, turn.id)
    assert (row["outcome"], row["memory_outcome"], row["memory_reason"]) == ("interrupted", "discarded", "interrupted")
    assert answers_of(house.engine, turn.id) == ["Noted."]
