"""The line is lost in the very COMMIT: what is told about the turn is what the COMMIT did, or that it is not known."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from agent.commit import commit_turn, store_text
from agent.outcome import Ending, MemoryOutcome, Outcome, Reason
from memory_core.database.transaction import transaction
from memory_core.errors import CommitUnknown, StorageFailed
from tests.agent.turning import (
    WAIT_SECONDS,
    House,
    adding,
    assert_agrees,
    assert_nothing_saved,
    in_thread,
    remembered,
    soon,
    stages,
    turn_row,
)
from tests.memory_core.database.waiting import until_locked

ENTRY = "Likes tea."

Commit = Callable[..., Ending]


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> Callable[[Commit], None]:
    """The commit is as given, and its answer never comes."""

    def lose(commit: Commit) -> None:
        def committing(*arguments: Any, **named: Any) -> Ending:
            commit(*arguments, **named)
            raise CommitUnknown

        monkeypatch.setattr("agent.turn_desk.commit_turn", committing)

    return lose


def nothing(*arguments: Any, **named: Any) -> None:
    """A COMMIT that was never heard."""


def failing(times: int) -> Callable[..., Any]:
    """Transactions that fail so often before one comes through."""
    left = iter(range(times))

    def fail(*arguments: Any, **named: Any) -> Any:
        if next(left, None) is not None:
            raise StorageFailed
        return transaction(*arguments, **named)

    return fail


@pytest.mark.invariant("I14")
async def test_a_commit_that_was_done_is_told_as_done_however_long_it_takes_to_learn(
    house: House, lost: Callable[[Commit], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database answers the fourth time it is asked."""
    lost(commit_turn)
    monkeypatch.setattr("agent.turn_desk.transaction", failing(3))
    stages(house.model, adding(ENTRY))

    told = await house.say("I like tea.")

    assert told.ending.memory.outcome is MemoryOutcome.COMMITTED
    assert_agrees(house.engine, told.turn.id, told.ending, ENTRY)


@pytest.mark.invariant("I14")
async def test_a_commit_that_was_not_done_is_told_as_failed(house: House, lost: Callable[[Any], None]) -> None:
    lost(nothing)
    stages(house.model, adding(ENTRY))

    told = await house.say("I like tea.")

    assert (told.ending.outcome, told.ending.reason) == (Outcome.FAILED, Reason.STORAGE)
    assert_nothing_saved(house.engine, told.turn.id, ENTRY)


@pytest.mark.invariant("I14")
async def test_a_commit_that_is_still_under_way_is_waited_for(
    house: House, lost: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the owner's lock: a mere look at the turn would find it *running*, and tell that it failed."""
    under_way, may_end = threading.Event(), threading.Event()
    committing: list[threading.Thread] = []

    def store_slowly(*arguments: Any) -> str | None:
        under_way.set()
        assert may_end.wait(WAIT_SECONDS)
        return store_text(*arguments)

    def commit_elsewhere(*arguments: Any, **named: Any) -> None:
        committing.append(threading.Thread(target=commit_turn, args=arguments, kwargs=named))
        committing[0].start()
        assert under_way.wait(WAIT_SECONDS)

    monkeypatch.setattr("agent.commit.store_text", store_slowly)
    lost(commit_elsewhere)
    stages(house.model, adding(ENTRY))
    saying = asyncio.create_task(house.say("I like tea."))
    await in_thread(lambda: until_locked(house.engine))

    may_end.set()

    told = await soon(saying)
    await in_thread(committing[0].join)
    assert told.ending.memory.outcome is MemoryOutcome.COMMITTED
    assert_agrees(house.engine, told.turn.id, told.ending, ENTRY)


@pytest.mark.invariant("I14")
async def test_what_cannot_be_known_is_not_told_and_turns_out_later(
    house: House, lost: Callable[[Commit], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No claim is made in either direction; what was done stands when the database is back."""
    lost(commit_turn)
    monkeypatch.setattr("agent.turn_desk.LEARN_SECONDS", 0.0)
    with monkeypatch.context() as away:
        away.setattr("agent.turn_desk.transaction", failing(100))
        away.setattr("agent.discard.transaction", failing(100))
        stages(house.model, adding(ENTRY))
        told = await house.say("I like tea.")
    assert (told.ending.outcome, told.ending.memory.outcome) == (Outcome.RUNNING, MemoryOutcome.NONE)

    await in_thread(house.desk.record_later)

    assert house.desk.unrecorded == {}
    assert turn_row(house.engine, told.turn.id)["outcome"] == Outcome.COMPLETED
    assert remembered(house.engine, house.owner()).user == (ENTRY,)
