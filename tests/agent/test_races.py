"""Stop and commit at the same moment: one of them wins, and both sides are told the same.

The Stop here is another process's: `stop_turn` on an engine of its own, with nothing in common but the database.
"""

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from functools import partial

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from agent.discard import Stopped, stop_session, stop_turn
from agent.errors import TurnNotFound
from agent.events import TextDelta
from agent.outcome import Outcome
from memory_core.database.engine import make_engine
from memory_core.ids import new_id
from tests.agent.database_steps import DatabaseSteps
from tests.agent.turning import (
    WAIT_SECONDS,
    House,
    Told,
    adding,
    answers_of,
    assert_agrees,
    in_thread,
    listen,
    listen_until,
    open_house,
    remembered,
    says,
    stages,
    turn_row,
    turns_still_running,
)
from tests.database import OrganizationForTests, rows
from tests.fakes.model_server import Gate, ModelServer, gate
from tests.memory_core.database.waiting import until_locked

ENTRY = "Likes tea."
LOCKED = "datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture
def elsewhere(database_url: str) -> Iterator[Engine]:
    """Another process's connections."""
    engine = make_engine(database_url, pool_size=3)
    yield engine
    engine.dispose()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as executor:
        yield executor


class Race:
    """A turn that stages something, and a Stop from elsewhere that names it by its key."""

    def __init__(self, house: House, elsewhere: Engine, threads: ThreadPoolExecutor) -> None:
        self.house = house
        self.elsewhere = elsewhere
        self.threads = threads
        self.key = new_id("key")
        self.stopping: Future[Stopped] | None = None

    def stop(self) -> Stopped:
        return stop_turn(self.elsewhere, self.house.owner(), self.key)

    def start_stopping(self, connection: Connection | None = None) -> None:
        self.stopping = self.threads.submit(self.stop)

    def stop_and_wait(self, connection: Connection) -> None:
        """Go on when the Stop is done, or has met the commit's locks."""
        self.start_stopping()
        assert self.stopping is not None
        waiting = sa.text(f"SELECT count(*) FROM pg_stat_activity WHERE {LOCKED}")
        deadline = time.monotonic() + WAIT_SECONDS
        while not self.stopping.done() and not rows(self.elsewhere, waiting)[0]["count"]:
            assert time.monotonic() < deadline

    async def run(self, entry: str = ENTRY) -> Told:
        """The turn to its end, and then the Stop to its."""
        stages(self.house.model, adding(entry))
        told = await self.house.say("Remember that.", key=self.key)
        if self.stopping is not None:
            stopped = await asyncio.wrap_future(self.stopping)
            assert stopped.turn_id == told.turn.id
            assert stopped.outcome is told.ending.outcome
        assert_agrees(self.house.engine, told.turn.id, told.ending, entry)
        return told


@pytest.fixture
def race(house: House, elsewhere: Engine, threads: ThreadPoolExecutor) -> Race:
    return Race(house, elsewhere, threads)


def claim_of(steps: DatabaseSteps) -> int:
    """The place of the claim among the steps of a commit."""
    return next(place for place, what in enumerate(steps.taken, 1) if what.startswith("UPDATE remembrancer.turns"))


async def steps_of_a_commit(house: House, steps: DatabaseSteps) -> tuple[int, int]:
    """The place of its claim, and of its COMMIT."""
    steps.taken.clear()
    stages(house.model, adding("Something else."))
    await house.say("Remember that.")
    return claim_of(steps), len(steps.taken)


@pytest.mark.invariant("I15")
async def test_a_stop_that_is_done_before_the_claim_wins(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit is under way already and holds the owner; the turn is stopped, and its text is kept and marked."""
    steps = DatabaseSteps(race.house.engine, monkeypatch, "agent.turn_desk.commit_turn")
    claim, _ = await steps_of_a_commit(race.house, steps)
    stopped: list[Stopped] = []
    steps.before(claim, lambda connection: stopped.append(race.stop()))

    told = await race.run()

    assert [one.outcome for one in stopped] == [Outcome.STOPPED]
    assert told.ending.outcome is Outcome.STOPPED
    assert told.ending.memory.reason == "stopped"
    assert answers_of(race.house.engine, told.turn.id) == ["Noted."]


@pytest.mark.invariant("I15")
async def test_a_stop_that_comes_after_the_claim_is_too_late(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for the commit's end, and is told that the answer was completed."""
    steps = DatabaseSteps(race.house.engine, monkeypatch, "agent.turn_desk.commit_turn")
    _, commit = await steps_of_a_commit(race.house, steps)

    def stop_and_see_it_wait(connection: Connection) -> None:
        race.start_stopping()
        until_locked(race.house.engine)

    steps.before(commit, stop_and_see_it_wait)

    told = await race.run()

    assert told.ending.outcome is Outcome.COMPLETED


@pytest.mark.invariant("I15")
async def test_a_claim_that_waits_for_a_stop_finds_it_done(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Stop has its row and has not committed yet; the commit waits at its claim, and loses."""
    stop_has_its_row, stop_may_go = threading.Event(), threading.Event()

    def hold(connection: Connection) -> None:
        stop_has_its_row.set()
        assert stop_may_go.wait(WAIT_SECONDS)

    sa.event.listen(race.elsewhere, "commit", hold, once=True)
    steps = DatabaseSteps(race.house.engine, monkeypatch, "agent.turn_desk.commit_turn")

    def let_the_stop_go_when_the_claim_waits() -> None:
        until_locked(race.house.engine)
        stop_may_go.set()

    letting_go = race.threads.submit(let_the_stop_go_when_the_claim_waits)

    def stop_first(connection: Connection) -> None:
        race.start_stopping()
        assert stop_has_its_row.wait(WAIT_SECONDS)

    steps.before(1, stop_first)

    told = await race.run()

    await asyncio.wrap_future(letting_go)
    assert told.ending.outcome is Outcome.STOPPED


@pytest.mark.invariant("I15")
@pytest.mark.parametrize("isolation", ["READ COMMITTED", "SERIALIZABLE"])
async def test_whenever_a_stop_comes_there_is_one_winner(
    model: ModelServer,
    database_url: str,
    organization: OrganizationForTests,
    elsewhere: Engine,
    threads: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
    isolation: str,
) -> None:
    """Fifty races in which the Stop is let loose at a step of the commit that chance has picked; both have won some.
    In every other one the commit sees the Stop be done, or wait, before it goes on.
    """
    chance = random.Random(15)
    engine = make_engine(database_url, isolation_level=isolation)
    steps = DatabaseSteps(engine, monkeypatch, "agent.turn_desk.commit_turn")
    outcomes = []
    async with open_house(engine, organization, model) as house:
        _, commit = await steps_of_a_commit(house, steps)
        for number in range(50):
            race = Race(house, elsewhere, threads)
            steps.before(chance.randint(1, commit), race.start_stopping if number % 2 else race.stop_and_wait)
            outcomes.append((await race.run(f"Fact {number:02}.")).ending.outcome)
        saved = remembered(engine, house.owner()).user
    engine.dispose()
    assert set(outcomes) == {Outcome.COMPLETED, Outcome.STOPPED}
    assert len(saved) == 1 + outcomes.count(Outcome.COMPLETED)


async def test_a_stop_in_mid_answer_keeps_the_text_so_far(house: House, elsewhere: Engine) -> None:
    """Another process stopped it and told this one: the text is kept, and the model is left alone in time."""
    held, key = Gate(), new_id("key")
    house.model.play(*says("Half of ")[:1], gate(held), *says("it."))
    running = await house.running.open(house.request(key=key))
    told = await listen_until(running, TextDelta)

    stopped = await in_thread(lambda: stop_turn(elsewhere, house.owner(), key))
    house.running.interrupt(stopped.turn_id, Outcome.STOPPED)
    await listen(running, told)

    await house.model.reached(aborted=1, within_seconds=2)
    assert told.ending.outcome is stopped.outcome is Outcome.STOPPED
    assert answers_of(house.engine, told.turn.id) == ["Half of "]
    assert house.running.ids == ()


async def test_stopping_twice_is_stopping_once(house: House, elsewhere: Engine) -> None:
    """And an answer that has ended stays as it is, whoever asks."""
    house.model.play(*says("Hello."))
    key = new_id("key")
    told = await house.say(key=key)

    again = [await in_thread(lambda: stop_turn(elsewhere, house.owner(), key)) for _ in range(2)]

    assert [stopped.outcome for stopped in again] == [Outcome.COMPLETED] * 2
    assert turn_row(house.engine, told.turn.id)["outcome"] == Outcome.COMPLETED


async def test_a_key_that_was_never_used_stops_nothing(house: House, elsewhere: Engine) -> None:
    """Neither for somebody known nor for somebody unknown."""
    house.model.play(*says("Hello."))
    await house.say()
    for subject in ("ada", "nobody"):
        with pytest.raises(TurnNotFound):
            await in_thread(partial(stop_turn, elsewhere, house.owner(subject), "other"))


async def test_a_session_that_ends_stops_its_own_turns_only(house: House, elsewhere: Engine) -> None:
    """Signing out in one browser: the answer there is stopped, the one in another browser goes on."""
    held = Gate()
    for _ in range(2):
        house.model.play(gate(held), *says("Hello."))
    here = await house.running.open(house.request(session_id=house.sign_in("session-1")))
    there = await house.running.open(house.request(session_id=house.sign_in("session-2")))

    ended = await in_thread(lambda: stop_session(elsewhere, "session-1"))
    for turn_id in ended:
        house.running.interrupt(turn_id, Outcome.STOPPED)
    stopped = await listen(here)
    held.open()
    went_on = await listen(there)

    assert ended == (here.turn.id,)
    assert (stopped.ending.outcome, went_on.ending.outcome) == (Outcome.STOPPED, Outcome.COMPLETED)
    assert turns_still_running(house.engine) == []


@pytest.mark.invariant("I15")
async def test_a_turn_that_was_ended_elsewhere_is_not_completed_by_whoever_reads_it(
    house: House, elsewhere: Engine
) -> None:
    """No word of the Stop has reached this process: the commit itself finds out."""
    stages(house.model, adding(ENTRY))
    key = new_id("key")
    turn = await house.begin(key=key)
    await in_thread(lambda: stop_turn(elsewhere, house.owner(), key))

    async with aclosing(house.run(turn)) as events:
        told = Told(turn, [event async for event in events])

    assert told.ending.outcome is Outcome.STOPPED
    assert_agrees(house.engine, turn.id, told.ending, ENTRY)
    assert remembered(house.engine, house.owner()).user == ()
