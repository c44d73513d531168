"""The earlier change when an answer is written again: what cannot be taken back, and what happens meanwhile (R24)."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from agent.outcome import MemoryOutcome, MemoryStatus, Outcome
from memory_core.changes import NOW
from memory_core.database.tables import memory_changes
from memory_core.database.transaction import transaction
from memory_core.document import Target
from memory_core.errors import OperationRefused, ReceiptGone, RefusalCode
from memory_core.operations import Action, Operation
from memory_core.owner import Actor, MemoryMode
from memory_core.receipts import undo_receipt
from memory_core.store import commit_batches, forget_everything
from tests.agent.regenerating import COFFEE, KEPT, TEA, again, an_answer, entries, is_undone
from tests.agent.turning import (
    House,
    Told,
    adding,
    calls,
    listen,
    memory_rows,
    remember,
    removing,
    says,
    switch,
)
from tests.fakes.model_server import Gate, gate


class TestWhatCannotBeTakenBack:
    """Then the earlier change stays, and so does its receipt."""

    async def check(self, house: House, first: Told) -> None:
        house.model.requests.clear()
        told = await again(house, first, says("You like many things."))
        assert told.ending.memory.outcome is MemoryOutcome.NONE
        assert TEA in house.model.requests[0].messages[0]["content"]
        assert TEA in str(entries(house))

    async def test_its_time_is_over(self, house: House) -> None:
        """The words are not used after that, swept or not."""
        first = await an_answer(house, adding(TEA))
        with house.engine.begin() as connection:
            connection.execute(sa.update(memory_changes).values(undo_until=NOW - timedelta(seconds=1)))
        await self.check(house, first)

    async def test_the_time_of_the_first_of_three_is_over(self, house: House) -> None:
        """The second took the first one's change back; without its words nobody can tell where that leads."""
        first = await an_answer(house, adding(COFFEE))
        second = await again(house, first, calls(adding(TEA)), says("Noted."))
        old = memory_changes.c.id == first.ending.memory.receipt_id
        with house.engine.begin() as connection:
            connection.execute(sa.update(memory_changes).where(old).values(undo_until=NOW - timedelta(seconds=1)))
        await self.check(house, second)
        assert not is_undone(house, second)

    async def test_undo_is_switched_off(self, house: House) -> None:
        """Nothing was kept to take it back with."""
        house.desk.undo_hours = 0
        await self.check(house, await an_answer(house, adding(TEA)))

    async def test_the_person_has_edited_the_entry_since(self, house: House) -> None:
        """It is theirs now."""
        first = await an_answer(house, adding(TEA))
        edit = Operation(Target.USER, Action.REPLACE, match=TEA, content=f"{TEA} A lot.")
        transaction(
            house.engine,
            lambda unit: commit_batches(unit, [[edit]], actor=Actor.PERSON, undo_hours=24),
            owner=house.owner(),
        )
        await self.check(house, first)
        assert not is_undone(house, first)

    async def test_the_place_was_taken_since(self, house: House) -> None:
        """What was removed does not fit any more: all or nothing, so nothing."""
        first = await an_answer(house, removing("Graz"), adding(TEA))
        filling = "a" * (1375 - 3 - len(TEA))
        remember(house.engine, house.owner(), filling)
        house.model.requests.clear()

        told = await again(house, first, says("You like many things."))

        assert told.ending.memory.outcome is MemoryOutcome.NONE
        assert entries(house) == (TEA, filling)


@pytest.mark.invariant("I40")
async def test_undone_by_the_person_in_mid_turn_it_is_not_undone_twice(house: House) -> None:
    """The receipt has one winner: the person's Undo; the answer is kept, its memory refused with a reason."""
    first = await an_answer(house, adding(TEA))
    held = Gate()
    house.model.play(*calls(adding(COFFEE)))
    house.model.play(gate(held), *says("Noted."))
    running = await house.running.open(
        house.request("", conversation_id=first.turn.conversation_id, regenerates_id=first.turn.id)
    )
    await house.model.reached(requests=4, open=1)
    receipt_id = first.ending.memory.receipt_id
    assert receipt_id is not None
    transaction(house.engine, lambda unit: undo_receipt(unit, receipt_id), owner=house.owner())
    held.open()

    told = await listen(running)

    assert told.ending.outcome is Outcome.COMPLETED
    assert (told.ending.memory.outcome, told.ending.memory.reason) == (
        MemoryOutcome.REFUSED,
        RefusalCode.CHANGED_SINCE,
    )
    assert entries(house) == (KEPT,)


@pytest.mark.invariant("I40")
async def test_taken_back_by_the_new_answer_it_cannot_be_undone_by_hand(house: House) -> None:
    """The other order: the earlier receipt is gone for the person, the new one can be undone."""
    first = await an_answer(house, adding(TEA))
    told = await again(house, first, calls(adding(COFFEE)), says("Noted."))
    old, new = first.ending.memory.receipt_id, told.ending.memory.receipt_id
    assert old is not None
    assert new is not None

    with pytest.raises((ReceiptGone, OperationRefused)):
        transaction(house.engine, lambda unit: undo_receipt(unit, old), owner=house.owner())
    transaction(house.engine, lambda unit: undo_receipt(unit, new), owner=house.owner())

    assert entries(house) == (KEPT, TEA)


@pytest.mark.invariant("I40")
async def test_forgotten_in_mid_turn_nothing_comes_back(house: House) -> None:
    """The old answer had removed an entry; the person forgets everything while the new one is written."""
    first = await an_answer(house, removing("Graz"))
    held = Gate()
    house.model.play(gate(held), *says("Noted."))
    running = await house.running.open(
        house.request("", conversation_id=first.turn.conversation_id, regenerates_id=first.turn.id)
    )
    transaction(house.engine, forget_everything, owner=house.owner())
    held.open()

    told = await listen(running)

    assert told.ending.outcome is Outcome.COMPLETED
    assert told.ending.memory.reason is RefusalCode.CHANGED_SINCE
    assert memory_rows(house.engine) == []


@pytest.mark.invariant("I40")
@pytest.mark.parametrize("staging", [True, False], ids=["and the answer stages", "and the answer stages nothing"])
async def test_what_the_person_edits_in_mid_turn_is_not_taken_back_with_it(house: House, staging: bool) -> None:
    """The edit holds the old words as a part of its own: they are no longer the entry that the old answer left."""
    first = await an_answer(house, adding("Likes tea"))
    held = Gate()
    if staging:
        house.model.play(*calls(adding(COFFEE)))
    house.model.play(gate(held), *says("Noted."))
    running = await house.running.open(
        house.request("", conversation_id=first.turn.conversation_id, regenerates_id=first.turn.id)
    )
    await house.model.reached(requests=4 if staging else 3, open=1)
    edit = Operation(Target.USER, Action.REPLACE, match="Likes tea", content="Likes tea, and writes about it.")
    transaction(
        house.engine,
        lambda unit: commit_batches(unit, [[edit]], actor=Actor.PERSON, undo_hours=24),
        owner=house.owner(),
    )
    held.open()

    told = await listen(running)

    assert told.ending.outcome is Outcome.COMPLETED
    assert (told.ending.memory.outcome, told.ending.memory.reason) == (
        MemoryOutcome.REFUSED,
        RefusalCode.CHANGED_SINCE,
    )
    assert entries(house) == (KEPT, "Likes tea, and writes about it.")
    assert not is_undone(house, first)


@pytest.mark.invariant("I38")
async def test_switched_off_the_earlier_change_stays(house: House) -> None:
    """Off when it is asked again, or switched off in mid-turn: the agent writes nothing, not even an inverse. What was
    left so is taken back by the next answer that may.
    """
    first = await an_answer(house, adding(TEA))
    switch(house.engine, house.owner(), MemoryMode.OFF)
    off = await again(house, first, says("Off."))
    assert off.turn.memory_status is MemoryStatus.OFF
    assert not is_undone(house, first)
    switch(house.engine, house.owner(), MemoryMode.AUTO)
    on = await again(house, off, calls(adding(COFFEE)), says("On."))
    held = Gate()
    house.model.play(gate(held), *says("Off again."))
    running = await house.running.open(
        house.request("", conversation_id=on.turn.conversation_id, regenerates_id=on.turn.id)
    )
    switch(house.engine, house.owner(), MemoryMode.OFF)
    held.open()
    told = await listen(running)

    assert off.ending.memory.outcome is MemoryOutcome.OFF
    assert told.ending.memory.reason is RefusalCode.MEMORY_OFF
    assert entries(house) == (KEPT, COFFEE)
    assert is_undone(house, first)
    assert not is_undone(house, on)


@pytest.mark.invariant("I19")
async def test_memory_that_cannot_be_read_is_not_taken_back(house: House) -> None:
    """The answer is written again without memory; what is stored and its receipt stay."""
    first = await an_answer(house, adding(TEA))
    with house.engine.begin() as connection:
        connection.execute(sa.text("UPDATE remembrancer.agent_memory SET schema_version = 2"))
    before = memory_rows(house.engine)

    told = await again(house, first, says("Anew."))

    assert told.ending.memory.outcome is MemoryOutcome.UNAVAILABLE
    assert memory_rows(house.engine) == before
    assert not is_undone(house, first)
