"""Which model answers a turn: another one only before the first word, and a busy one after a short wait."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.engine import Engine

from agent.outcome import MemoryOutcome, Outcome, Reason
from tests.agent.turning import (
    House,
    adding,
    answers_of,
    assert_agrees,
    assert_nothing_saved,
    calls,
    open_house,
    remembered,
    says,
    soon,
    turn_row,
)
from tests.database import OrganizationForTests
from tests.fakes.model_server import ModelServer, Step, chunk, cut, error_status, raw, reset, stall, text, whole

ENTRY = "Likes tea."


@pytest.fixture
async def house(model: ModelServer, engine: Engine, organization: OrganizationForTests) -> AsyncIterator[House]:
    """A process with a model and two to fall back on."""
    async with open_house(engine, organization, model, models=("first", "second", "third")) as made:
        yield made


@pytest.fixture
async def alone(model: ModelServer, engine: Engine, organization: OrganizationForTests) -> AsyncIterator[House]:
    """A process with one model."""
    async with open_house(engine, organization, model) as made:
        yield made


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long turns would have waited for a busy model; they do not."""
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("agent.conversation.wait_for_room", note)
    return waits


def asked(house: House) -> list[str]:
    return [request.body["model"] for request in house.model.requests]


FAILURES: dict[str, list[Step]] = {
    "429": [error_status(429)],
    "500": [error_status(500)],
    "404": [error_status(404)],
    "403": [error_status(403)],
    "cut before a word": [cut()],
    "reset before a word": [reset()],
    "an error before a word": [chunk({"error": {"message": "no"}})],
    "nonsense": [raw(b"data: {nonsense\n\n")],
    "a page": [whole(b"<html>", content_type="text/html")],
}


@pytest.mark.invariant("I20")
@pytest.mark.parametrize("failure", FAILURES)
async def test_before_the_first_word_the_next_model_answers(house: House, failure: str) -> None:
    """Whatever kept the first from beginning; the second's answer is the answer, and that is on record."""
    house.model.play(*FAILURES[failure])
    house.model.play(*says("Hello."))

    told = await house.say()

    assert asked(house) == ["first", "second"]
    assert told.ending.outcome is Outcome.COMPLETED
    row = turn_row(house.engine, told.turn.id)
    assert (row["model"], row["fallback"]) == ("second", True)


@pytest.mark.invariant("I20")
async def test_a_model_that_does_not_begin_in_time_is_left_for_the_next(
    model: ModelServer, engine: Engine, organization: OrganizationForTests
) -> None:
    """It has taken the request and says nothing: its connection is closed, and the second answers."""
    async with open_house(engine, organization, model, models=("first", "second"), stall_seconds=2.0) as house:
        model.play(stall())
        model.play(*says("Hello."))

        told = await house.say()

    assert told.ending.outcome is Outcome.COMPLETED
    assert (asked(house), model.counters.aborted) == (["first", "second"], 1)


@pytest.mark.invariant("I20")
async def test_a_fallback_stays_for_the_rest_of_the_turn(house: House) -> None:
    """The round after its tools is the same model's, and the change it staged is saved."""
    house.model.play(error_status(503))
    house.model.play(*calls(adding(ENTRY)))
    house.model.play(*says("Noted."))

    told = await house.say("I like tea.")

    assert asked(house) == ["first", "second", "second"]
    assert_agrees(house.engine, told.turn.id, told.ending, ENTRY)
    assert told.ending.memory.outcome is MemoryOutcome.COMMITTED


@pytest.mark.parametrize("status", [400, 401, 413, 422])
async def test_a_request_that_is_refused_is_refused_by_all(house: House, status: int) -> None:
    """Another model would be asked the same; the turn fails at once."""
    house.model.play(error_status(status))
    if status in (400, 422):
        house.model.play(error_status(status))  # asked once more without usage counts

    told = await house.say()

    assert set(asked(house)) == {"first"}
    assert (told.ending.outcome, told.ending.reason) == (Outcome.FAILED, Reason.REJECTED)


async def test_when_no_model_can_answer_the_turn_fails(house: House) -> None:
    """Each is asked once; the last one's failure is the turn's."""
    for status in (500, 502, 503):
        house.model.play(error_status(status))

    told = await house.say()

    assert asked(house) == ["first", "second", "third"]
    assert (told.ending.outcome, told.ending.reason) == (Outcome.FAILED, Reason.UNREACHABLE)


AFTER: dict[str, tuple[list[Step], ...]] = {
    "after the first word": ([text("Half an"), cut()],),
    "after staging": (list(calls(adding(ENTRY))), [error_status(503)]),
    "after staging, busy": (list(calls(adding(ENTRY))), [error_status(429, retry_after=1)]),
    "after a refused batch": (list(calls({"target": "user", "action": "remove"})), [error_status(503)]),
    "after staging and a word": (list(calls(adding(ENTRY))), [text("Half an"), reset()]),
}


@pytest.mark.invariant("I20")
@pytest.mark.invariant("I12")
@pytest.mark.parametrize("when", AFTER)
async def test_afterwards_no_other_model_is_asked(house: House, waited: list[float], when: str) -> None:
    """A word was said or a tool was called: the turn fails, nobody is asked again, and nothing is saved."""
    for script in AFTER[when]:
        house.model.play(*script)

    told = await house.say("I like tea.")

    assert asked(house) == ["first"] * len(AFTER[when])
    assert told.ending.outcome is Outcome.FAILED
    assert_nothing_saved(house.engine, told.turn.id, ENTRY)
    assert waited == []


@pytest.mark.invariant("I20")
async def test_a_turn_that_is_asked_again_starts_with_a_new_ledger(house: House) -> None:
    """What the failed attempt had staged is not in the prompt of the next, and not in what it saves."""
    house.model.play(*calls(adding(ENTRY)))
    house.model.play(error_status(503))
    failed = await house.say("I like tea.")
    house.model.play(*calls(adding("Likes jazz.")))
    house.model.play(*says("Noted."))

    told = await house.say("", conversation_id=failed.turn.conversation_id, regenerates_id=failed.turn.id)

    assert ENTRY not in house.model.requests[2].messages[0]["content"]
    assert told.ending.memory.outcome is MemoryOutcome.COMMITTED
    assert remembered(house.engine, house.owner()).user == ("Likes jazz.",)


class TestBusy:
    """429 with Retry-After, from the last model there is."""

    @pytest.mark.parametrize("seconds", [0, 7, 30])
    async def test_a_short_wait_is_waited_once(self, alone: House, waited: list[float], seconds: int) -> None:
        """As long as the server asked, then it is asked again and answers."""
        alone.model.play(error_status(429, retry_after=seconds))
        alone.model.play(*says("Hello."))

        told = await alone.say()

        assert waited == [seconds]
        assert told.ending.outcome is Outcome.COMPLETED

    @pytest.mark.parametrize("seconds", [31, 3600, 10**9])
    async def test_a_long_wait_is_told_and_not_waited(self, alone: House, waited: list[float], seconds: int) -> None:
        """The turn fails at once and says when to come back; a time beyond a day is told as a day."""
        alone.model.play(error_status(429, retry_after=seconds))
        before = datetime.now(UTC)

        told = await alone.say()

        assert waited == []
        assert (told.ending.outcome, told.ending.reason) == (Outcome.FAILED, Reason.BUSY)
        assert told.ending.retry_at is not None
        told_seconds = timedelta(seconds=min(seconds, 86_400))
        assert before + told_seconds <= told.ending.retry_at <= datetime.now(UTC) + told_seconds
        assert turn_row(alone.engine, told.turn.id)["retry_at"] is not None

    async def test_a_second_busy_answer_is_the_end(self, alone: House, waited: list[float]) -> None:
        """One wait a turn."""
        for _ in range(2):
            alone.model.play(error_status(429, retry_after=5))

        told = await alone.say()

        assert waited == [5]
        assert told.ending.reason is Reason.BUSY

    async def test_without_a_time_nothing_is_waited_for(self, alone: House, waited: list[float]) -> None:
        """Nobody knows how long: the turn fails, without a time to come back."""
        alone.model.play(error_status(429))

        told = await alone.say()

        assert (waited, told.ending.retry_at) == ([], None)
        assert told.ending.reason is Reason.BUSY

    async def test_other_models_are_tried_before_anything_is_waited_for(
        self, house: House, waited: list[float]
    ) -> None:
        """The first is busy for seven seconds; the second answers now."""
        house.model.play(error_status(429, retry_after=7))
        house.model.play(*says("Hello."))

        await house.say()

        assert (asked(house), waited) == (["first", "second"], [])

    async def test_an_outage_is_not_waited_for(self, alone: House, waited: list[float]) -> None:
        """Retry-After of a 503 is a guess about a fault; the person may try again themselves."""
        alone.model.play(error_status(503, retry_after=1))

        told = await alone.say()

        assert waited == []
        assert told.ending.reason is Reason.UNREACHABLE

    @pytest.mark.invariant("I13")
    async def test_a_wait_can_be_stopped(self, alone: House, monkeypatch: pytest.MonkeyPatch) -> None:
        """A Stop while the turn waits for a busy model: it ends at once."""
        waits = asyncio.Event()

        async def wait(seconds: float) -> None:
            waits.set()
            await asyncio.Event().wait()

        monkeypatch.setattr("agent.conversation.wait_for_room", wait)
        alone.model.play(error_status(429, retry_after=30))
        running = await alone.running.open(alone.request())
        await soon(waits.wait())

        running.interrupt(Outcome.STOPPED)
        await soon(running.ended())

        assert turn_row(alone.engine, running.turn.id)["outcome"] == Outcome.STOPPED
        assert answers_of(alone.engine, running.turn.id) == []
