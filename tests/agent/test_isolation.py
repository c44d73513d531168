"""Nobody's words, memory or identity reach anybody else: not at once, not by id, not by name."""

import asyncio
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from agent.discard import stop_turn
from agent.errors import ConversationNotFound, TurnNotFound
from agent.events import MemoryStaged
from agent.outcome import MemoryOutcome
from agent.running import RunningTurn
from agent.transcript import find_conversation, find_title, list_conversations
from memory_core.database.tables import conversations, memory_changes, messages, owners
from tests.agent.turning import (
    WAIT_SECONDS,
    House,
    Told,
    adding,
    everything_stored,
    in_thread,
    listen,
    remembered,
    says,
    stages,
    turns_still_running,
)
from tests.database import rows
from tests.fakes.model_server import Gate, RecordedRequest, Script, finish, gate, text, tool

PEOPLE, CHATS, WAVES = 40, 3, 2
NAME = re.compile(r"person-\d+")


def names_in(value: object) -> set[str]:
    return set(NAME.findall(str(value)))


class Crowd:
    """A model that holds every answer until it is let go, twice an answer, and does what its own prompt says."""

    def __init__(self) -> None:
        self.gates: list[Gate] = []

    def answer(self, request: RecordedRequest) -> Script:
        held = Gate()
        self.gates.append(held)
        said = request.last_user_text
        if any(message["role"] == "tool" for message in request.messages):
            return (gate(held), text(f"Hello {NAME.findall(said)[0]}."), finish("stop"))
        batch = {"operations": [adding(f"Is {said}.")]}
        return (gate(held), text(f"So you are {said}. "), tool("memory_update", batch), finish("tool_calls"))

    def let_go(self, chance: random.Random) -> None:
        """All that are held, in an order of chance's."""
        held, self.gates = self.gates, []
        chance.shuffle(held)
        for one in held:
            one.open()


@pytest.mark.invariant("I11")
async def test_hundreds_of_turns_at_once_never_cross(house: House) -> None:
    """Forty people with three chats each, twice: every prompt, event, entry and row names its own person only.

    The overlap is proven: each round of each wave begins only when all answers of it are open at the same time.
    """
    chance, crowd = random.Random(11), Crowd()
    house.model.choose = crowd.answer
    chats: dict[tuple[int, int], str | None] = {(p, c): None for p in range(PEOPLE) for c in range(CHATS)}
    size = len(chats)
    told: list[tuple[int, Told]] = []

    async def open_turn(person: int, chat: int, wave: int) -> tuple[int, int, RunningTurn]:
        message = f"person-{person} in chat {chat} of wave {wave}"
        request = house.request(message, subject=f"person-{person}", conversation_id=chats[person, chat])
        return person, chat, await house.running.open(request)

    for wave in range(WAVES):
        order = list(chats)
        chance.shuffle(order)
        opened = await asyncio.gather(*[open_turn(person, chat, wave) for person, chat in order])
        for round_number in (1, 2):
            count = size * (2 * wave + round_number)
            await house.model.reached(requests=count, open=size, within_seconds=WAIT_SECONDS)
            assert len(house.running.ids) == size
            crowd.let_go(chance)
        heard = await asyncio.gather(*[listen(running) for _, _, running in opened])
        for (person, chat, running), one in zip(opened, heard, strict=True):
            chats[person, chat] = running.turn.conversation_id
            told.append((person, one))

    assert len(told) == size * WAVES
    for person, one in told:
        assert one.ending.memory.outcome is MemoryOutcome.COMMITTED
        assert one.turn.owner.subject == f"person-{person}"
        assert names_in(one.text) == {f"person-{person}"}
        assert one.staged is not None
        assert names_in(one.staged.changes) == {f"person-{person}"}
    assert all(len(names_in(request.body)) == 1 for request in house.model.requests)
    for person in range(PEOPLE):
        entries = remembered(house.engine, house.owner(f"person-{person}")).user
        wanted = {f"Is person-{person} in chat {c} of wave {w}." for c in range(CHATS) for w in range(WAVES)}
        assert (set(entries), len(entries)) == (wanted, len(wanted))
    for table in (conversations, messages, memory_changes):
        joined = sa.select(owners.c.subject, table).join(owners, owners.c.id == table.c.owner_id)
        assert all(names_in(row) == {row["subject"]} for row in rows(house.engine, joined))
    assert turns_still_running(house.engine) == []


@pytest.mark.invariant("I11")
@pytest.mark.invariant("I25")
async def test_the_prompt_holds_the_memory_of_the_exact_subject(house: House) -> None:
    """Subjects that differ in case, in a space or in their normal form are different people."""
    subjects = ("Ada", "ada", "ada ", "ad\u00e4", "ada\u0308", "ada@example.org")
    for number, subject in enumerate(subjects):
        stages(house.model, adding(f"Fact {number}."))
        await house.say("Remember that.", subject=subject)
    house.model.requests.clear()

    for subject in subjects:
        house.model.play(*says("Hello."))
        await house.say(subject=subject)

    for number, request in enumerate(house.model.requests):
        assert re.findall(r"Fact \d", str(request.messages)) == [f"Fact {number}"]


async def two_people(house: House) -> tuple[Told, Told, str]:
    """Ada's turn and Bob's, and the key of Ada's."""
    house.model.play(*says("Hello Ada."))
    ada = await house.say("I am Ada.", subject="ada", key="key-of-ada")
    house.model.play(*says("Hello Bob."))
    return ada, await house.say("I am Bob.", subject="bob"), "key-of-ada"


@pytest.mark.invariant("I26")
@pytest.mark.parametrize("whose", ["somebody else's", "nobody's"])
async def test_what_belongs_to_somebody_else_is_not_found(house: House, whose: str) -> None:
    """By begin, by regenerating, by Stop: as if it did not exist, with the same error, and nothing is stored."""
    ada, bob, key = await two_people(house)
    chat, turn = (ada.turn.conversation_id, ada.turn.id) if whose == "somebody else's" else ("cht_none", "trn_none")
    key = key if whose == "somebody else's" else "no key"
    mine = bob.turn.conversation_id
    before = everything_stored(house.engine)
    attempts: list[tuple[type[Exception], dict[str, Any]]] = [
        (ConversationNotFound, {"conversation_id": chat}),
        (TurnNotFound, {"conversation_id": chat, "regenerates_id": turn}),
        (TurnNotFound, {"conversation_id": mine, "regenerates_id": turn}),
        (TurnNotFound, {"conversation_id": chat, "regenerates_id": bob.turn.id}),
        (TurnNotFound, {"regenerates_id": turn}),
    ]

    for error, request in attempts:
        with pytest.raises(error):
            await house.running.open(house.request("Hello.", subject="bob", **request))
    with pytest.raises(TurnNotFound):
        await in_thread(lambda: stop_turn(house.engine, house.owner("bob"), key))

    assert everything_stored(house.engine) == before
    assert house.model.counters.requests == 2


@pytest.mark.invariant("I26")
async def test_nothing_of_somebody_else_is_read(house: House) -> None:
    """By their chat's id, by their turn's inside one's own chat, and in the list of chats."""
    ada, bob, _ = await two_people(house)
    owner, theirs, mine = house.owner("bob"), ada.turn.conversation_id, bob.turn.conversation_id
    with house.engine.connect() as connection:
        assert find_conversation(connection, owner, theirs) is None
        assert find_conversation(connection, owner, theirs, around=ada.turn.id) is None
        assert find_title(connection, owner, theirs) is None
        here = find_conversation(connection, owner, mine, around=ada.turn.id)
        assert here is not None
        assert here.turns == ()
        assert [summary.id for summary in list_conversations(connection, owner)] == [mine]
        stranger = house.owner("nobody")
        assert find_conversation(connection, stranger, theirs) is None
        assert list_conversations(connection, stranger) == ()


@pytest.mark.invariant("I26")
async def test_the_same_key_of_another_person_is_another_turn(house: House) -> None:
    """Keys are made by browsers: two people may come up with the same one."""
    house.model.play(*says("Hello Ada."))
    house.model.play(*says("Hello Bob."))

    ada = await house.say("Hello", subject="ada", key="the-same")
    bob = await house.say("Hello", subject="bob", key="the-same")

    assert ada.turn.id != bob.turn.id
    assert (ada.text, bob.text) == ("Hello Ada.", "Hello Bob.")


ODD_IDS: list[Callable[[], str]] = [lambda: "\0", lambda: "x" * 10_000, lambda: "'; --", lambda: "\ud800"]


@pytest.mark.invariant("I26")
@pytest.mark.parametrize("odd", ODD_IDS, ids=["U+0000", "very long", "quotes", "half a surrogate pair"])
async def test_an_id_that_cannot_exist_does_not(house: House, odd: Callable[[], str]) -> None:
    """Whatever stands in an address is an id that nobody has, never a fault of the database."""
    _, bob, _ = await two_people(house)
    owner, made_up = house.owner("bob"), odd()

    with pytest.raises(ConversationNotFound):
        await house.running.open(house.request(subject="bob", conversation_id=made_up))
    with pytest.raises(TurnNotFound):
        await house.running.open(
            house.request(subject="bob", conversation_id=bob.turn.conversation_id, regenerates_id=made_up)
        )
    with pytest.raises(TurnNotFound):
        await in_thread(lambda: stop_turn(house.engine, owner, made_up))
    with house.engine.connect() as connection:
        assert find_conversation(connection, owner, made_up) is None
        assert find_title(connection, owner, made_up) is None
        here = find_conversation(connection, owner, bob.turn.conversation_id, around=made_up)
        assert here is not None
        assert here.turns == ()


async def test_a_staged_change_is_told_to_its_own_reader(house: House) -> None:
    """The event that holds words names the entry that was staged in this turn."""
    stages(house.model, adding("Likes tea."))

    told = await house.say("I like tea.")

    staged = told.staged
    assert isinstance(staged, MemoryStaged)
    assert [change.after for change in staged.changes] == ["Likes tea."]
