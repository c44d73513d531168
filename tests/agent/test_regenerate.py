"""An answer written again: its own memory change is taken back first, with the new answer or not at all (R24)."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from agent.errors import TurnNotFound
from agent.outcome import MemoryOutcome, MemoryStatus, Outcome
from agent.transcript import find_conversation
from memory_core.changes import NOW
from memory_core.database.tables import memory_changes, messages, turns
from memory_core.database.transaction import transaction
from memory_core.document import Target
from memory_core.errors import OperationRefused, ReceiptGone, RefusalCode
from memory_core.operations import Action, Operation
from memory_core.owner import Actor, MemoryMode
from memory_core.receipts import undo_receipt
from memory_core.store import commit_batches, forget_everything
from tests.agent.turning import (
    House,
    Told,
    adding,
    answers_of,
    assert_nothing_saved,
    assert_valid_request,
    calls,
    listen,
    memory_rows,
    receipts_of,
    remember,
    remembered,
    removing,
    replacing,
    says,
    stages,
    switch,
    turn_row,
)
from tests.database import rows
from tests.fakes.model_server import Gate, Script, cut, gate, text

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


async def test_the_new_answer_is_asked_for_as_if_the_old_one_had_not_been(house: House) -> None:
    """Same question, no old answer in the history, and a memory without what the old answer had saved."""
    first = await an_answer(house, adding(TEA))
    house.model.requests.clear()

    told = await again(house, first, says("You like many things."))

    [request] = house.model.requests
    assert TEA not in request.messages[0]["content"]
    assert KEPT in request.messages[0]["content"]
    assert request.messages[1:] == [{"role": "user", "content": "What do I like?"}]
    assert told.turn.question == "What do I like?"
    assert answers_of(house.engine, told.turn.id) == ["You like many things."]


async def test_what_the_old_answer_saved_is_taken_back_with_the_new_one(house: House) -> None:
    """The new answer stages nothing: its commit is the inverse alone, and the earlier receipt is undone."""
    first = await an_answer(house, adding(TEA))

    told = await again(house, first, says("You like many things."))

    assert entries(house) == (KEPT,)
    assert is_undone(house, first)
    assert [(change.before, change.after) for change in told.ending.memory.changes] == [(TEA, None)]


async def test_the_new_answers_change_stands_in_the_place_of_the_old(house: House) -> None:
    """Taken back and added in one transaction; one receipt tells both."""
    first = await an_answer(house, adding(TEA))

    told = await again(house, first, calls(adding(COFFEE)), says("Noted."))

    assert entries(house) == (KEPT, COFFEE)
    assert is_undone(house, first)
    assert not is_undone(house, told)


async def test_the_same_change_again_leaves_everything_as_it_was(house: House) -> None:
    """Not saved twice: the row is untouched, and the earlier receipt stands and can be undone."""
    first = await an_answer(house, adding(TEA))
    before = memory_rows(house.engine)

    told = await again(house, first, calls(adding(TEA)), says("Noted."))

    assert told.ending.memory.outcome is MemoryOutcome.UNCHANGED
    assert memory_rows(house.engine) == before
    assert not is_undone(house, first)


@pytest.mark.parametrize("operation", [replacing("Graz", "Lives in Linz."), removing("Graz")])
async def test_an_edit_or_a_removal_is_taken_back_as_well(house: House, operation: dict[str, Any]) -> None:
    """The old text is in the prompt of the new answer, and in memory after it."""
    first = await an_answer(house, operation)
    house.model.requests.clear()

    await again(house, first, says("In Graz."))

    assert KEPT in house.model.requests[0].messages[0]["content"]
    assert entries(house) == (KEPT,)


async def test_asking_a_third_time_does_not_bring_back_the_first_answers_change(house: House) -> None:
    """Each answer's own change is taken back, and not the taking back of the one before it."""
    first = await an_answer(house, adding(TEA))
    second = await again(house, first, calls(adding(COFFEE)), says("Noted."))
    house.model.requests.clear()

    third = await again(house, second, says("You like many things."))
    fourth = await again(house, third, calls(adding("Likes water.")), says("Noted."))
    fifth = await again(house, fourth, says("You like many things."))

    prompts = [request.messages[0]["content"] for request in house.model.requests]
    assert not any(word in prompt for prompt in prompts[:2] for word in (TEA, COFFEE))
    assert entries(house) == (KEPT,)
    assert third.ending.memory.outcome is MemoryOutcome.COMMITTED
    assert fifth.ending.memory.outcome is MemoryOutcome.COMMITTED


async def test_what_two_answers_saved_alike_is_taken_back_by_the_third(house: House) -> None:
    """The second changed nothing, so the first one's receipt is the one that counts."""
    first = await an_answer(house, adding(TEA))
    second = await again(house, first, calls(adding(TEA)), says("Noted."))

    await again(house, second, says("You like many things."))

    assert entries(house) == (KEPT,)
    assert is_undone(house, first)


BAD: dict[str, tuple[Script, ...]] = {
    "fails": ((text("Half an"), cut()),),
    "is cut off": (says("Half an", reason="length"),),
    "stages and fails": (calls(adding(COFFEE)), (text("Half an"), cut())),
}


@pytest.mark.invariant("I12")
@pytest.mark.parametrize("how", BAD)
async def test_until_the_new_answer_has_ended_well_the_old_one_stands(house: House, how: str) -> None:
    """Answer, memory and receipt are as they were; the failed attempt is on record beside them; *Not saved* is told
    only of what the model itself had staged.
    """
    first = await an_answer(house, adding(TEA))
    before = memory_rows(house.engine)

    told = await again(house, first, *BAD[how])

    assert_nothing_saved(house.engine, told.turn.id, COFFEE)
    discarded = MemoryOutcome.DISCARDED if how == "stages and fails" else MemoryOutcome.NONE
    assert told.ending.memory.outcome is discarded
    assert memory_rows(house.engine) == before
    assert not is_undone(house, first)
    assert not turn_row(house.engine, first.turn.id)["superseded"]
    house.model.play(*says("Here I am."))
    await house.say("And now?", conversation_id=first.turn.conversation_id)
    messages_sent = house.model.requests[-1].messages
    assert_valid_request(messages_sent)
    assert [message["content"] for message in messages_sent[1:]] == ["What do I like?", "Noted.", "And now?"]


async def test_a_stopped_attempt_leaves_the_old_answer_too(house: House) -> None:
    """Stopped before its first word: nothing is told of memory, and another attempt may follow."""
    first = await an_answer(house, adding(TEA))
    house.model.play(gate(Gate()))
    running = await house.running.open(
        house.request("", conversation_id=first.turn.conversation_id, regenerates_id=first.turn.id)
    )
    await house.model.reached(open=1)
    running.interrupt(Outcome.STOPPED)
    told = await listen(running)

    assert told.ending.memory.outcome is MemoryOutcome.NONE
    assert entries(house) == (KEPT, TEA)
    await again(house, told, says("You like many things."))
    assert entries(house) == (KEPT,)


async def test_the_log_keeps_both_answers_and_shows_which_one_stands(house: House) -> None:
    """One question; the old turn and what came after it are set aside, out of the prompt and not gone."""
    first = await an_answer(house, adding(TEA))
    chat = first.turn.conversation_id
    house.model.play(*says("Later."))
    later = await house.say("And later?", conversation_id=chat)

    told = await again(house, first, says("Anew."))

    with house.engine.connect() as connection:
        conversation = find_conversation(connection, house.owner(), chat)
        assert conversation is not None
        around = find_conversation(connection, house.owner(), chat, around=told.turn.id)
        assert around is not None
    standing = [(turn.id, turn.superseded) for turn in conversation.turns]
    assert sorted(standing) == sorted([(first.turn.id, True), (later.turn.id, True), (told.turn.id, False)])
    assert {turn.id for turn in around.turns} == {first.turn.id, told.turn.id}
    active = sa.select(messages.c.content).where(messages.c.active).order_by(messages.c.place)
    assert [row["content"] for row in rows(house.engine, active)] == ["What do I like?", "Anew."]
    house.model.play(*says("Here I am."))
    await house.say("And now?", conversation_id=chat)
    assert [message["content"] for message in house.model.requests[-1].messages[1:]] == [
        "What do I like?",
        "Anew.",
        "And now?",
    ]


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


async def test_a_failed_answer_can_be_asked_for_again(house: House) -> None:
    """There is nothing to take back; the new answer stands in its place."""
    house.model.play(text("Half an"), cut())
    failed = await house.say("What do I like?")

    told = await again(house, failed, says("Tea."))

    assert told.ending.outcome is Outcome.COMPLETED
    assert turn_row(house.engine, failed.turn.id)["superseded"]
    house.model.play(*says("Here I am."))
    await house.say("And now?", conversation_id=failed.turn.conversation_id)
    assert [message["content"] for message in house.model.requests[-1].messages[1:]] == [
        "What do I like?",
        "Tea.",
        "And now?",
    ]


async def test_a_turn_that_is_not_there_cannot_be_asked_for_again(house: House) -> None:
    """No such turn, or one of another conversation of one's own."""
    house.model.play(*says("One."))
    one = await house.say()
    house.model.play(*says("Two."))
    two = await house.say()

    for chat, turn in ((one.turn.conversation_id, "trn_none"), (one.turn.conversation_id, two.turn.id)):
        with pytest.raises(TurnNotFound):
            await house.running.open(house.request("", conversation_id=chat, regenerates_id=turn))

    assert len(rows(house.engine, sa.select(turns))) == 2
