"""An answer written again: its own memory change is taken back first, with the new answer or not at all (R24)."""

from typing import Any

import pytest
import sqlalchemy as sa

from agent.errors import TurnNotFound
from agent.outcome import MemoryOutcome, Outcome
from agent.transcript import find_conversation
from memory_core.database.tables import messages, turns
from tests.agent.regenerating import COFFEE, KEPT, TEA, again, an_answer, entries, is_undone
from tests.agent.turning import (
    House,
    adding,
    answers_of,
    assert_nothing_saved,
    assert_valid_request,
    calls,
    listen,
    memory_rows,
    removing,
    replacing,
    says,
    turn_row,
)
from tests.database import rows
from tests.fakes.model_server import Gate, Script, cut, gate, text


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
