"""A turn that is cut, in every way, at every moment in which it can be: it commits nothing and leaves nothing running.

The answer under test says two words, stages a change, and says two more. A gate stands before each of its pieces, so
that a turn can be held exactly between what it has told and what it has not.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from itertools import chain
from typing import Any

import anyio
import pytest
import sqlalchemy as sa

from agent.begin import BegunTurn
from agent.events import TurnEnded, TurnEvent
from agent.interruption import Interruption
from agent.liveness import Running, beat
from agent.models.protocol import ModelRequest, RoundEnd, TextPiece
from agent.outcome import Outcome
from memory_core.database.tables import turns
from tests.agent.database_steps import DatabaseSteps
from tests.agent.turning import (
    WAIT_SECONDS,
    House,
    Told,
    adding,
    assert_agrees,
    assert_nothing_saved,
    assert_valid_request,
    calls,
    everything_stored,
    in_thread,
    listen,
    remembered,
    says,
    soon,
    turn_row,
)
from tests.fakes.model_server import Gate, Script, cut, error_status, finish, gate, raw, reset, text, tool

ENTRY = "Likes tea."
STORY = ["TurnStarted", "TextDelta", "TextDelta", "ToolStarted", "MemoryStaged", "TextDelta", "TextDelta"]
#: Which gate has to be open for the event at this place of the story to come. The model ends behind the last one.
GATES = 6
OPENS = {1: 1, 2: 2, 3: 3, 4: 3, 5: 4, 6: 5}


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


class HeldAnswer:
    """The scripted answer and its gates."""

    def __init__(self, fault_behind: int = 0, fault: Callable[[], Any] | None = None) -> None:
        self.gates = [Gate() for _ in range(GATES)]
        steps: list[list[Any]] = [
            [text("One ")],
            [text("two.")],
            [tool("memory_update", {"operations": [adding(ENTRY)]}), finish("tool_calls")],
            [text("Three ")],
            [text("four.")],
            [finish("stop")],
        ]
        pieces = [
            (gate(held), *([fault()] if fault and place == fault_behind else piece))
            for place, (held, piece) in enumerate(zip(self.gates, steps, strict=True), 1)
        ]
        self.scripts: list[Script] = [list(chain(*pieces[:3])), list(chain(*pieces[3:]))]

    def open(self, count: int) -> None:
        for held in self.gates[:count]:
            held.open()


async def events_until(events: AsyncGenerator[TurnEvent, None], count: int, answer: HeldAnswer) -> list[str]:
    """Read so many events, opening only the gates that they need."""
    seen = []
    for place in range(count):
        answer.open(OPENS.get(place, 0))
        seen.append(type(await anext(events)).__name__)
    assert seen == STORY[:count]
    return seen


async def to_the_end(events: AsyncGenerator[TurnEvent, None]) -> list[TurnEvent]:
    """Whatever is still told (where the turn does not wait between two events, a cut falls behind the second)."""
    async with asyncio.timeout(WAIT_SECONDS):
        return [event async for event in events]


async def begin_held(house: House, answer: HeldAnswer) -> BegunTurn:
    for script in answer.scripts:
        house.model.play(*script)
    return await house.begin("I like tea.")


async def ended_without_a_trace(house: House, turn: BegunTurn, *outcomes: Outcome) -> None:
    """The ending is recorded, memory is untouched, the model's connection is closed within two seconds."""
    assert_nothing_saved(house.engine, turn.id, ENTRY)
    assert turn_row(house.engine, turn.id)["outcome"] in outcomes
    assert house.desk.unrecorded == {}
    open_answers = house.model.counters.open
    if open_answers:
        await house.model.reached(aborted=house.model.counters.aborted + open_answers, within_seconds=2)
    house.model._scripts.clear()


Cut = Callable[[House, BegunTurn, HeldAnswer, int], Awaitable[None]]


async def close_the_generator(house: House, turn: BegunTurn, answer: HeldAnswer, count: int) -> None:
    """GeneratorExit, at the moment an event has been told."""
    async with aclosing(house.run(turn)) as events:
        await events_until(events, count, answer)


async def cancel_the_task(house: House, turn: BegunTurn, answer: HeldAnswer, count: int) -> None:
    """A native `Task.cancel`, while the turn waits for what comes next."""
    told = asyncio.Event()

    async def read() -> None:
        async with aclosing(house.run(turn)) as events:
            await events_until(events, count, answer)
            told.set()
            await to_the_end(events)

    task = asyncio.create_task(read())
    await soon(told.wait())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(task)


async def cancel_the_scope(house: House, turn: BegunTurn, answer: HeldAnswer, count: int) -> None:
    """An anyio scope, which cancels every later await again."""
    with anyio.CancelScope() as scope:
        async with aclosing(house.run(turn)) as events:
            await events_until(events, count, answer)
            asyncio.get_running_loop().call_soon(scope.cancel)
            await to_the_end(events)
    assert scope.cancelled_caught


async def interrupt_as(outcome: Outcome, house: House, turn: BegunTurn, answer: HeldAnswer, count: int) -> None:
    """The process's own way, while the turn waits for what comes next: its reader is told how it ended."""
    interruption = Interruption()
    async with aclosing(house.run(turn, interruption)) as events:
        await events_until(events, count, answer)
        asyncio.get_running_loop().call_soon(interruption.interrupt, outcome)
        ended = (await to_the_end(events))[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.ending.outcome is outcome


async def stop_it(house: House, turn: BegunTurn, answer: HeldAnswer, count: int) -> None:
    await interrupt_as(Outcome.STOPPED, house, turn, answer, count)


async def lose_its_client(house: House, turn: BegunTurn, answer: HeldAnswer, count: int) -> None:
    await interrupt_as(Outcome.INTERRUPTED, house, turn, answer, count)


CUTS: dict[str, tuple[Cut, Outcome]] = {
    "GeneratorExit": (close_the_generator, Outcome.INTERRUPTED),
    "Task.cancel": (cancel_the_task, Outcome.INTERRUPTED),
    "anyio": (cancel_the_scope, Outcome.INTERRUPTED),
    "stop": (stop_it, Outcome.STOPPED),
    "client gone": (lose_its_client, Outcome.INTERRUPTED),
}


@pytest.mark.invariant("I12")
@pytest.mark.invariant("I13")
@pytest.mark.invariant("I23")
@pytest.mark.parametrize("how", CUTS)
async def test_a_turn_cut_at_any_event_commits_nothing(house: House, how: str) -> None:
    """After each event of the story, before the first one's text and after the last one's too; and the conversation
    goes on as a valid request, with no argument of a tool stored anywhere.
    """
    cut_it, outcome = CUTS[how]
    for count in range(1, len(STORY) + 1):
        answer = HeldAnswer()
        turn = await begin_held(house, answer)

        await cut_it(house, turn, answer, count)

        await ended_without_a_trace(house, turn, outcome)
        house.model.play(*says("Here I am."))
        await house.say("And now?", conversation_id=turn.conversation_id)
        assert_valid_request(house.model.requests[-1].messages)
        assert ENTRY not in everything_stored(house.engine)


@pytest.mark.invariant("I13")
@pytest.mark.parametrize("outcome", [Outcome.STOPPED, Outcome.INTERRUPTED])
async def test_a_reader_that_goes_before_the_first_byte_ends_its_turn(house: House, outcome: Outcome) -> None:
    """The turn is on record and its response has not begun: nobody reads a word, the model is not kept."""
    for answered in (False, True):
        house.model.play(gate(Gate()))
        running = await house.running.open(house.request("Remember that."))
        if answered:
            await house.model.reached(open=1)

        running.interrupt(outcome)
        await soon(running.ended())

        assert turn_row(house.engine, running.turn.id)["outcome"] == outcome
        await house.model.idle()
        house.model._scripts.clear()
    assert house.running.ids == ()


@pytest.mark.invariant("I13")
async def test_the_model_is_left_alone_before_the_end_is_recorded(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long recording takes: a reader that closes its stream does not leave the answer running meanwhile."""
    happened: list[str] = []
    house.model.play(text("Half of "), gate(Gate()))
    agent = await house.agents.authenticated(house.organization.agent_id, 1)
    ask = agent.client.open

    @asynccontextmanager
    async def noted(request: ModelRequest) -> AsyncIterator[AsyncIterator[TextPiece | RoundEnd]]:
        try:
            async with ask(request) as answer:
                yield answer
        finally:
            happened.append("closed")

    monkeypatch.setattr(agent.client, "open", noted)
    steps = DatabaseSteps(house.engine, monkeypatch, "agent.turn_desk.discard_turn")
    steps.before(1, lambda connection: happened.append("recorded"))
    async with aclosing(house.run(await house.begin())) as events:
        await anext(events)
        await anext(events)

    assert happened == ["closed", "recorded"]


@pytest.mark.invariant("I13")
async def test_a_task_that_is_cancelled_before_its_first_step_leaves_no_reader_waiting(house: House) -> None:
    """A closing loop cancels everything: the reader's stream ends, and the next beat ends the turn."""
    running = await house.running.open(house.request("Remember that."))

    running.task.cancel()
    told = await listen(running)

    assert told.events == []
    assert house.running.now() == Running(())
    with house.engine.begin() as connection:
        connection.execute(sa.update(turns).values(started_at=sa.text("clock_timestamp() - interval '1 minute'")))
    await in_thread(lambda: beat(house.engine, house.process_id, house.running.now))
    assert turn_row(house.engine, running.turn.id)["outcome"] == Outcome.INTERRUPTED


@pytest.mark.invariant("I12")
async def test_the_same_story_uncut_commits(house: House) -> None:
    """The cuts above cut something: left alone, the turn ends with everything saved."""
    answer = HeldAnswer()
    turn = await begin_held(house, answer)
    async with aclosing(house.run(turn)) as events:
        await events_until(events, len(STORY), answer)
        answer.open(GATES)
        ended = await soon(anext(events))

    assert isinstance(ended, TurnEnded)
    assert ended.ending.outcome is Outcome.COMPLETED
    assert_agrees(house.engine, turn.id, ended.ending, ENTRY)
    assert remembered(house.engine, house.owner()).user == (ENTRY,)


FAULTS: dict[str, Callable[[], Any]] = {
    "cut": cut,
    "reset": reset,
    "error in the stream": lambda: raw(b'data: {"error":{"message":"no","type":"server_error"}}\n\n'),
    "nonsense": lambda: raw(b"data: {nonsense\n\n"),
}


@pytest.mark.invariant("I12")
@pytest.mark.invariant("I21")
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_model_that_fails_at_any_piece_commits_nothing(house: House, fault: str) -> None:
    """Before each piece of the story the model breaks off in another way: the turn has failed, and says so."""
    for place in range(1, GATES + 1):
        answer = HeldAnswer(place, FAULTS[fault])
        answer.open(GATES)
        turn = await begin_held(house, answer)
        async with aclosing(house.run(turn)) as events:
            told = Told(turn, await to_the_end(events))

        assert told.ending.outcome is Outcome.FAILED
        await ended_without_a_trace(house, turn, Outcome.FAILED)
    assert remembered(house.engine, house.owner()).user == ()


@pytest.mark.invariant("I12")
async def test_a_second_round_that_is_refused_commits_nothing(house: House) -> None:
    """Staged, and then the server is out of order."""
    for status in (400, 401, 429, 500, 503):
        house.model.play(*calls(adding(ENTRY)))
        house.model.play(error_status(status))

        told = await house.say("I like tea.")

        assert told.staged is not None
        assert told.ending.outcome is Outcome.FAILED
        assert_nothing_saved(house.engine, told.turn.id, ENTRY)
