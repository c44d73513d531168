"""What others do while a turn is under way: memory changed or switched between staging and commit."""

from typing import Any

import pytest

from agent.outcome import Capacity, MemoryOutcome, Outcome
from memory_core.database.transaction import transaction
from memory_core.document import Target
from memory_core.errors import RefusalCode
from memory_core.operations import Action, Operation
from memory_core.owner import Actor, MemoryMode
from memory_core.store import commit_batches
from tests.agent.turning import (
    House,
    Told,
    adding,
    answers_of,
    assert_agrees,
    calls,
    listen,
    memory_rows,
    receipts_of,
    remember,
    remembered,
    replacing,
    says,
    switch,
    turn_row,
)
from tests.fakes.model_server import Gate, gate

ENTRY = "Likes tea."


async def held_after_staging(house: House, *operations: dict[str, Any]) -> tuple[Any, Gate]:
    """A turn that has staged and waits, before its last words."""
    held = Gate()
    house.model.play(*calls(*operations))
    house.model.play(gate(held), *says("Noted."))
    running = await house.running.open(house.request("Remember that."))
    await house.model.reached(requests=2, open=1)
    return running, held


async def go_on(house: House, running: Any, held: Gate) -> Told:
    held.open()
    told = await listen(running)
    assert told.staged is not None
    assert told.ending.outcome is Outcome.COMPLETED
    assert answers_of(house.engine, told.turn.id) == ["Noted."]
    return told


def by_the_person(house: House, *operations: Operation) -> None:
    """What the panel does, in another tab."""
    transaction(
        house.engine,
        lambda unit: commit_batches(unit, [operations], actor=Actor.PERSON, undo_hours=24),
        owner=house.owner(),
    )


class TestChangedMeanwhile:
    """R4: between staging and commit somebody else wrote."""

    async def test_an_entry_that_is_gone_costs_memory_and_not_the_answer(self, house: House) -> None:
        """*Not saved*, with the reason a match that is nowhere has."""
        remember(house.engine, house.owner(), ENTRY)
        running, held = await held_after_staging(house, replacing("tea", "Likes coffee."))
        by_the_person(house, Operation(Target.USER, Action.REMOVE, match=ENTRY))

        told = await go_on(house, running, held)

        assert (told.ending.memory.outcome, told.ending.memory.reason) == (
            MemoryOutcome.REFUSED,
            RefusalCode.MATCH_NOT_FOUND,
        )
        assert receipts_of(house.engine, told.turn.id) == []
        assert remembered(house.engine, house.owner()).user == ()

    async def test_a_document_that_filled_up_is_told_as_full(self, house: House) -> None:
        """With the sizes of this moment, and they are on record."""
        remember(house.engine, house.owner(), ENTRY)
        running, held = await held_after_staging(house, adding("Likes jazz."))
        filling = Operation(Target.USER, Action.ADD, content="a" * (1375 - len(ENTRY) - 3))
        by_the_person(house, filling)

        told = await go_on(house, running, held)

        assert told.ending.memory.reason is RefusalCode.CAPACITY_EXCEEDED
        assert told.ending.memory.capacity == Capacity(Target.USER, 1375, 1375, 1375 + 3 + len("Likes jazz."))
        assert turn_row(house.engine, told.turn.id)["memory_detail"]["used"] == 1375

    @pytest.mark.invariant("I16")
    async def test_what_does_not_collide_is_all_kept(self, house: House) -> None:
        """The person's entry and the model's stand side by side; the receipt names the model's only."""
        remember(house.engine, house.owner(), ENTRY)
        running, held = await held_after_staging(house, adding("Likes jazz."))
        by_the_person(house, Operation(Target.USER, Action.ADD, content="Lives in Graz."))

        told = await go_on(house, running, held)

        assert remembered(house.engine, house.owner()).user == (ENTRY, "Lives in Graz.", "Likes jazz.")
        assert [change.after for change in told.ending.memory.changes] == ["Likes jazz."]

    @pytest.mark.invariant("I22")
    async def test_what_the_person_did_meanwhile_is_not_saved_twice(self, house: House) -> None:
        """They added the very same words: the row is theirs, and this turn changed nothing."""
        remember(house.engine, house.owner(), ENTRY)
        running, held = await held_after_staging(house, adding("Likes jazz."))
        by_the_person(house, Operation(Target.USER, Action.ADD, content="Likes jazz."))

        told = await go_on(house, running, held)

        assert told.ending.memory.outcome is MemoryOutcome.UNCHANGED


class TestSwitchedMeanwhile:
    """Modes and the flag are judged again under the lock, and the strictest wins."""

    @pytest.mark.invariant("I38")
    @pytest.mark.parametrize("what", ["mode off", "mode ask", "flag off"])
    async def test_memory_switched_in_mid_turn_is_obeyed(self, house: House, what: str) -> None:
        """Staged while it was on; the answer is kept, memory is not written, and the receipt says why."""
        running, held = await held_after_staging(house, adding(ENTRY))
        if what == "flag off":
            house.memory_enabled = False
        else:
            switch(house.engine, house.owner(), MemoryMode(what.removeprefix("mode ")))

        told = await go_on(house, running, held)

        assert (told.ending.memory.outcome, told.ending.memory.reason) == (
            MemoryOutcome.REFUSED,
            RefusalCode.MEMORY_OFF,
        )
        assert receipts_of(house.engine, told.turn.id) == []
        assert memory_rows(house.engine) == []

    @pytest.mark.invariant("I38")
    async def test_memory_switched_off_and_on_again_is_on(self, house: House) -> None:
        """What counts is how it stands at the commit."""
        running, held = await held_after_staging(house, adding(ENTRY))
        for mode in (MemoryMode.OFF, MemoryMode.AUTO):
            switch(house.engine, house.owner(), mode)

        told = await go_on(house, running, held)

        assert_agrees(house.engine, told.turn.id, told.ending, ENTRY)
        assert told.ending.memory.outcome is MemoryOutcome.COMMITTED

    @pytest.mark.invariant("I38")
    async def test_a_turn_that_began_without_memory_gets_none(self, house: House) -> None:
        """Switched on in mid-turn: the model has seen no memory in this turn and cannot have staged anything."""
        switch(house.engine, house.owner(), MemoryMode.OFF)
        held = Gate()
        house.model.play(*calls(adding(ENTRY)))
        house.model.play(gate(held), *says("Noted."))
        running = await house.running.open(house.request())
        await house.model.reached(requests=2, open=1)
        switch(house.engine, house.owner(), MemoryMode.AUTO)
        held.open()

        told = await listen(running)

        assert told.ending.memory.outcome is MemoryOutcome.OFF
        assert memory_rows(house.engine) == []
