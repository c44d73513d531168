"""Memory that cannot be read: the answer comes all the same, nothing is written, and what is stored stays as it is."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from agent.outcome import MemoryOutcome, MemoryStatus, Outcome
from agent.prompt import BLOCK_OPENS, UNAVAILABLE
from memory_core.database.tables import agent_memory
from memory_core.database.transaction import Limits
from memory_core.errors import RefusalCode
from tests.agent.turning import (
    House,
    adding,
    answers_of,
    assert_valid_request,
    memory_rows,
    remember,
    remembered,
    says,
    stages,
    turn_row,
)

ENTRY = "Likes tea."


def change_row(**values: object) -> Callable[[Engine], None]:
    def change(engine: Engine) -> None:
        with engine.begin() as connection:
            connection.execute(sa.update(agent_memory).values(**values))

    return change


UNREADABLE: dict[str, Callable[[Engine], None]] = {
    "a newer schema": change_row(schema_version=2),
    "a schema below the first": change_row(schema_version=0),
    "an empty entry": change_row(content="Likes tea.\n§\n\n§\nLikes jazz."),
    "a delimiter inside": change_row(content="Likes tea.\n §\nLikes jazz."),
    "nothing": change_row(content=""),
}


@pytest.mark.invariant("I19")
@pytest.mark.parametrize("why", UNREADABLE)
async def test_memory_that_cannot_be_parsed_is_unavailable_and_untouched(house: House, why: str) -> None:
    """No entry in the prompt, the tool answers `memory_unavailable`, the answer is kept, the bytes are the same."""
    remember(house.engine, house.owner(), ENTRY)
    UNREADABLE[why](house.engine)
    before = memory_rows(house.engine)
    stages(house.model, adding("Likes jazz."), then="I could not note that.")

    told = await house.say("Remember that.")

    assert told.turn.memory_status is MemoryStatus.UNAVAILABLE
    assert told.kinds == ["TurnStarted", "ToolStarted", "TextDelta", "TurnEnded"]
    assert told.ending.outcome is Outcome.COMPLETED
    assert (told.ending.memory.outcome, told.ending.memory.reason) == (
        MemoryOutcome.UNAVAILABLE,
        RefusalCode.MEMORY_UNAVAILABLE,
    )
    assert answers_of(house.engine, told.turn.id) == ["I could not note that."]
    asked, again = house.model.requests
    assert UNAVAILABLE in asked.messages[0]["content"]
    assert BLOCK_OPENS in asked.messages[0]["content"]
    assert "jazz" not in asked.messages[0]["content"]
    assert asked.tool_names == ["memory_update"]
    assert '"code":"memory_unavailable"' in again.messages[-1]["content"]
    assert turn_row(house.engine, told.turn.id)["memory_status"] == MemoryStatus.UNAVAILABLE
    assert memory_rows(house.engine) == before


@contextmanager
def a_locked_table(engine: Engine) -> Iterator[None]:
    with engine.connect() as holder:
        holder.execute(sa.text("LOCK TABLE remembrancer.agent_memory IN ACCESS EXCLUSIVE MODE"))
        yield
        holder.rollback()


@contextmanager
def a_missing_column(engine: Engine) -> Iterator[None]:
    rename = "ALTER TABLE remembrancer.agent_memory RENAME COLUMN {} TO {}"
    with engine.begin() as connection:
        connection.execute(sa.text(rename.format("content", "moved")))
    yield
    with engine.begin() as connection:
        connection.execute(sa.text(rename.format("moved", "content")))


@pytest.mark.invariant("I19")
@pytest.mark.parametrize("failure", [a_locked_table, a_missing_column])
async def test_a_read_that_fails_in_the_database_is_unavailable_too(
    house: House, short_waits: Limits, failure: Callable[[Engine], AbstractContextManager[None]]
) -> None:
    """A lock that is not given up in time, a statement that fails: the turn begins and ends without memory."""
    remember(house.engine, house.owner(), ENTRY)
    before = memory_rows(house.engine)
    with failure(house.engine):
        stages(house.model, adding("Likes jazz."), then="I could not note that.")

        told = await house.say("Remember that.")

        assert told.turn.memory_status is MemoryStatus.UNAVAILABLE
        assert told.ending.outcome is Outcome.COMPLETED
        assert told.ending.memory.outcome is MemoryOutcome.UNAVAILABLE
    assert UNAVAILABLE in house.model.requests[0].messages[0]["content"]
    assert answers_of(house.engine, told.turn.id) == ["I could not note that."]
    assert memory_rows(house.engine) == before


@pytest.mark.invariant("I19")
async def test_the_next_turn_reads_memory_again(house: House) -> None:
    """Unavailable is a matter of one turn: mended, everything is there, and the conversation went on."""
    remember(house.engine, house.owner(), ENTRY)
    change_row(schema_version=2)(house.engine)
    house.model.play(*says("Hello."))
    told = await house.say()
    change_row(schema_version=1)(house.engine)
    stages(house.model, adding("Likes jazz."))

    after = await house.say("Remember that.", conversation_id=told.turn.conversation_id)

    assert ENTRY in house.model.requests[1].messages[0]["content"]
    assert_valid_request(house.model.requests[1].messages)
    assert after.ending.memory.outcome is MemoryOutcome.COMMITTED
    assert remembered(house.engine, house.owner()).user == (ENTRY, "Likes jazz.")


@pytest.mark.invariant("I19")
async def test_memory_that_becomes_unreadable_in_mid_turn_is_not_written_over(house: House) -> None:
    """Read at the beginning, newer at the commit: the answer is kept, memory is refused, the bytes stay."""
    remember(house.engine, house.owner(), ENTRY)
    stages(house.model, adding("Likes jazz."))
    turn = await house.begin("Remember that.")
    change_row(schema_version=2)(house.engine)
    before = memory_rows(house.engine)

    events = [event async for event in house.run(turn)]

    row = turn_row(house.engine, turn.id)
    assert len(events) > 2
    assert (row["outcome"], row["memory_outcome"], row["memory_reason"]) == (
        Outcome.COMPLETED,
        MemoryOutcome.REFUSED,
        RefusalCode.MEMORY_UNAVAILABLE,
    )
    assert memory_rows(house.engine) == before
