"""An answer that saves something, the same question asked again, and what memory holds after it."""

from typing import Any

from agent.outcome import MemoryOutcome
from tests.agent.turning import (
    House,
    Told,
    receipts_of,
    remember,
    remembered,
    stages,
)
from tests.fakes.model_server import Script

KEPT, TEA, COFFEE = "Lives in Graz.", "Likes tea.", "Likes coffee."


async def an_answer(house: House, *operations: dict[str, Any], then: str = "Noted.") -> Told:
    """A first answer that saves something beside what is there already."""
    remember(house.engine, house.owner(), KEPT)
    stages(house.model, *operations, then=then)
    told = await house.say("What do I like?")
    assert told.ending.memory.outcome is MemoryOutcome.COMMITTED
    return told


async def again(house: House, earlier: Told, *scripts: Script) -> Told:
    """The same question, answered with these scripts."""
    for script in scripts:
        house.model.play(*script)
    return await house.say("", conversation_id=earlier.turn.conversation_id, regenerates_id=earlier.turn.id)


def entries(house: House) -> tuple[str, ...]:
    return remembered(house.engine, house.owner()).user


def is_undone(house: House, told: Told) -> bool:
    [receipt] = receipts_of(house.engine, told.turn.id)
    return receipt["undone_at"] is not None
