"""The beginning of a turn: one question, one running turn a conversation, one run a key."""

import asyncio
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from agent.begin import ensure_sayable
from agent.errors import KeyReused, MessageRefused, TooManyTurns, TurnInProgress, TurnRepeated
from agent.outcome import Outcome
from agent.running import RunningTurn
from memory_core.database.tables import conversations, messages, owners, turns
from tests.agent.turning import (
    House,
    everything_stored,
    listen,
    open_house,
    says,
    soon,
    turn_row,
)
from tests.database import OrganizationForTests, rows
from tests.fakes.model_server import Gate, ModelServer, cut, gate, text


@pytest.mark.invariant("I24")
async def test_the_same_key_ten_times_at_once_runs_the_model_once(house: House) -> None:
    """One POST, a double click and eight retries: one turn begins, the others are told which one it is."""
    held = Gate()
    house.model.play(gate(held), *says("Hello."))
    posts = [house.request("Hello", key="the-key") for _ in range(10)]

    tried = await soon(asyncio.gather(*[house.running.open(post) for post in posts], return_exceptions=True))
    begun = [one for one in tried if isinstance(one, RunningTurn)]
    repeated = [one for one in tried if isinstance(one, TurnRepeated)]
    held.open()
    told = await listen(begun[0])

    assert (len(begun), len(repeated)) == (1, 9)
    assert {one.turn_id for one in repeated} == {begun[0].turn.id}
    assert {one.conversation_id for one in repeated} == {begun[0].turn.conversation_id}
    assert told.ending.outcome is Outcome.COMPLETED
    assert house.model.counters.requests == 1
    assert len(rows(house.engine, sa.select(conversations))) == 1
    assert len(rows(house.engine, sa.select(messages))) == 2


@pytest.mark.invariant("I24")
@pytest.mark.parametrize("how", ["completed", "failed", "stopped"])
async def test_a_key_stays_used_however_its_turn_ended(house: House, how: str) -> None:
    """The same message again leads to the turn there was, also to a stopped or failed one; the model is not asked."""
    house.model.play(*(says("Hello.") if how != "failed" else [text("Hel"), cut()]))
    request = house.request("Hello", key="the-key")
    running = await house.running.open(request)
    if how == "stopped":
        running.interrupt(Outcome.STOPPED)
    await listen(running)
    asked = house.model.counters.requests

    with pytest.raises(TurnRepeated) as repeated:
        await house.running.open(request)

    assert repeated.value.turn_id == running.turn.id
    assert turn_row(house.engine, running.turn.id)["outcome"] == how
    assert house.model.counters.requests == asked


@pytest.mark.invariant("I24")
@pytest.mark.parametrize("other", [{"message": "Bye"}, {"conversation_id": "cht_x"}, {"regenerates_id": "trn_x"}])
async def test_a_key_of_another_message_is_refused(house: House, other: dict[str, Any]) -> None:
    """Another text, another chat or another purpose under the same key: nothing begins."""
    house.model.play(*says("Hello."))
    await house.say("Hello", key="the-key")
    before = everything_stored(house.engine)

    with pytest.raises(KeyReused):
        await house.running.open(house.request(**{"message": "Hello", "key": "the-key", **other}))

    assert everything_stored(house.engine) == before


async def test_keys_and_messages_are_kept_as_digests_only(house: House) -> None:
    """A key may be a secret of the client's; the message is in the log, once."""
    house.model.play(*says("Hello."))
    await house.say("I am Kwagga.", key="a-key-like-no-other")

    stored = everything_stored(house.engine)

    assert "a-key-like-no-other" not in stored
    assert str([row["content"] for row in rows(house.engine, sa.select(messages))]).count("Kwagga") == 1


@pytest.mark.invariant("I24")
async def test_a_conversation_answers_one_message_at_a_time(house: House) -> None:
    """The second message is refused while the first is answered, and welcome afterwards."""
    held = Gate()
    house.model.play(gate(held), *says("One."))
    running = await house.running.open(house.request("One?"))
    chat = running.turn.conversation_id
    before = everything_stored(house.engine)

    with pytest.raises(TurnInProgress):
        await house.running.open(house.request("Two?", conversation_id=chat))
    with pytest.raises(TurnInProgress):
        await house.running.open(house.request("", conversation_id=chat, regenerates_id=running.turn.id))

    assert everything_stored(house.engine) == before
    held.open()
    await listen(running)
    house.model.play(*says("Two."))
    assert (await house.say("Two?", conversation_id=chat)).ending.outcome is Outcome.COMPLETED


async def test_many_messages_at_once_in_one_conversation_are_one_turn(house: House) -> None:
    """Ten tabs, ten keys, one chat: one of them is answered."""
    house.model.play(*says("Hello."))
    chat = (await house.say()).turn.conversation_id
    held = Gate()
    house.model.play(gate(held), *says("Yes."))

    tried = await soon(
        asyncio.gather(
            *[house.running.open(house.request(f"Tab {n}", conversation_id=chat)) for n in range(10)],
            return_exceptions=True,
        )
    )
    begun = [one for one in tried if isinstance(one, RunningTurn)]
    held.open()
    await listen(begun[0])

    assert len(begun) == 1
    assert all(isinstance(one, RunningTurn | TurnInProgress) for one in tried)
    assert len(rows(house.engine, sa.select(turns))) == 2


async def test_an_owner_has_a_few_answers_at_once_and_not_more(house: House) -> None:
    """The fourth chat is told so, and a place that gets free is taken; another person is not concerned."""
    held = Gate()
    for _ in range(4):
        house.model.play(gate(held), *says("Hello."))
    running = [await house.running.open(house.request()) for _ in range(3)]

    with pytest.raises(TooManyTurns) as refused:
        await house.running.open(house.request())
    assert refused.value.at_once == 3
    running.append(await house.running.open(house.request(subject="bob")))
    held.open()
    for one in running:
        await listen(one)
    house.model.play(*says("Hello."))
    await house.say()

    assert len(rows(house.engine, sa.select(conversations))) == 5


@pytest.mark.parametrize(
    ("message", "why"),
    [("", "empty"), (" \n\t", "empty"), ("a\0b", "control"), ("a\ud800b", "control")],
    ids=["nothing", "white space", "U+0000", "half a surrogate pair"],
)
async def test_what_cannot_be_said_begins_nothing(house: House, message: str, why: str) -> None:
    """Nothing to answer, or nothing that the database could keep as it is: refused, and nobody is created."""
    with pytest.raises(MessageRefused) as refused:
        await house.running.open(house.request(message))

    assert refused.value.why == why
    assert rows(house.engine, sa.select(owners)) == []


@pytest.mark.parametrize("message", ["x", "👩‍👩‍👧", "a\tb\nc", "§", "\u200b", "</persistent_memory_data>"])
def test_everything_else_can_be_said(message: str) -> None:
    """The rules of memory are not rules for speaking."""
    ensure_sayable(message)


async def test_a_person_without_a_turn_is_created_by_the_first(house: House) -> None:
    """And only once, however many of their first messages come at the same time."""
    held = Gate()
    for _ in range(3):
        house.model.play(gate(held), *says("Hello."))
    running = await soon(asyncio.gather(*[house.running.open(house.request(f"{n}?")) for n in range(3)]))
    held.open()
    for one in running:
        await listen(one)

    [owner] = rows(house.engine, sa.select(owners))
    assert owner["subject"] == "ada"
    assert owner["first_activity_at"] is not None


async def test_a_conversation_keeps_the_version_it_began_with(house: House) -> None:
    """Later turns ask for a newer agent; the conversation goes on with its own."""
    house.model.play(*says("One."))
    first = await house.say("One?")
    house.change_agent(instructions="Be brief.")
    house.model.play(*says("Two."))
    second = await house.say("Two?", conversation_id=first.turn.conversation_id)
    house.model.play(*says("Three."))
    third = await house.say("Three?")

    assert (first.turn.agent_version, second.turn.agent_version, third.turn.agent_version) == (1, 1, 2)
    assert second.ending.outcome is Outcome.COMPLETED
    assert [request.messages[0]["content"].startswith("Be brief.") for request in house.model.requests] == [
        False,
        False,
        True,
    ]


@pytest.mark.invariant("I24")
async def test_another_process_sees_the_same_keys_and_conversations(
    house: House, model: ModelServer, engine: Engine, organization: OrganizationForTests
) -> None:
    """Two processes behind a balancer: one key is one turn, and a chat that one answers is busy for the other."""
    held = Gate()
    model.play(gate(held), *says("Hello."))
    request = house.request("Hello", key="the-key")
    async with open_house(engine, organization, model) as other:
        running = await house.running.open(request)

        with pytest.raises(TurnRepeated):
            await other.running.open(request)
        with pytest.raises(TurnInProgress):
            await other.running.open(other.request("And?", conversation_id=running.turn.conversation_id))

        held.open()
        await listen(running)
    assert model.counters.requests == 1
