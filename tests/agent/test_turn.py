"""An ordinary turn: what it says and stores, and when its memory is saved, refused, or left as it was."""

import random
from typing import Any

import pytest
import sqlalchemy as sa

from agent.outcome import Capacity, MemoryOutcome, MemoryStatus, Outcome
from agent.prompt import BLOCK_OPENS
from agent.runtime import Agent
from memory_core.database.tables import conversations, messages, owners
from memory_core.document import LIMITS, Target
from memory_core.errors import RefusalCode
from memory_core.owner import MemoryMode
from tests.agent.turning import (
    House,
    adding,
    answers_of,
    assert_agrees,
    calls,
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
from tests.fakes.model_server import Script, finish, text, tool

ENTRY = "Likes tea."


async def test_an_answer_is_told_as_it_comes_and_stored_at_the_end(house: House) -> None:
    """Started, text, ended; question and answer stand in their places of the log; the chat has a title."""
    house.model.play(*says("Hel", "lo."))

    told = await house.say("What do you know about the weather in Graz?")

    assert told.kinds[0] == "TurnStarted"
    assert set(told.kinds[1:-1]) == {"TextDelta"}
    assert told.ending.outcome is Outcome.COMPLETED
    log = sa.select(messages.c.place, messages.c.role, messages.c.content).order_by(messages.c.place)
    assert [tuple(row.values()) for row in rows(house.engine, log)] == [
        (1, "user", "What do you know about the weather in Graz?"),
        (2, "assistant", "Hello."),
    ]
    [chat] = rows(house.engine, sa.select(conversations))
    assert chat["title"] == "What do you know about the weather in Graz?"


async def test_a_turn_is_measured(house: House) -> None:
    """Model, counts of tokens, time to the first word, the policy's version; of the tool its name and code."""
    stages(house.model, adding(ENTRY))

    told = await house.say("I like tea.")

    row = turn_row(house.engine, told.turn.id)
    measured = {name: row[name] for name in ("model", "input_tokens", "output_tokens", "fallback", "policy_version")}
    assert measured == {
        "model": "model-x",
        "input_tokens": 12,
        "output_tokens": 3,
        "fallback": False,
        "policy_version": "memory_v1",
    }
    assert row["first_token_ms"] >= 0
    assert row["ended_at"] >= row["started_at"]
    assert row["finish_reason"] == "stop"


async def test_the_next_turn_knows_the_conversation_and_what_was_saved(house: House) -> None:
    """History as user and assistant in turn; the memory block as it is now."""
    stages(house.model, adding(ENTRY))
    told = await house.say("I like tea.")
    house.model.play(*says("Tea."))

    await house.say("What do I like?", conversation_id=told.turn.conversation_id)

    system, *rest = house.model.requests[-1].messages
    assert ENTRY in system["content"]
    assert rest == [
        {"role": "user", "content": "I like tea."},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": "What do I like?"},
    ]


@pytest.mark.invariant("I22")
async def test_saved_is_told_with_the_words_and_the_way_back(house: House) -> None:
    """What was staged is what was saved: the receipt, the exact words, both sizes, until when it can be undone."""
    remember(house.engine, house.owner(), "Lives in Linz.")
    stages(house.model, adding(ENTRY), replacing("Linz", "Lives in Graz."), adding("Deploys on Fridays.", "memory"))

    told = await house.say("Remember that.")

    memory = told.ending.memory
    assert_agrees(house.engine, told.turn.id, told.ending, ENTRY)
    assert told.staged is not None
    assert memory.changes == told.staged.changes
    assert {(change.before, change.after) for change in memory.changes} == {
        (None, ENTRY),
        ("Lives in Linz.", "Lives in Graz."),
        (None, "Deploys on Fridays."),
    }
    assert (memory.user_characters, memory.memory_characters) == (len("Lives in Graz.\n§\nLikes tea."), 19)
    assert memory.undo_until is not None


@pytest.mark.invariant("I22")
@pytest.mark.parametrize(
    "batches",
    [
        [[adding(ENTRY)]],
        [[replacing("Likes tea.", ENTRY)]],
        [[adding("Likes jazz.")], [removing("Likes jazz.")]],
        [[removing(ENTRY), adding(ENTRY)]],
    ],
    ids=["a duplicate", "the same words", "added and removed again", "removed and added again"],
)
async def test_what_changes_nothing_is_not_called_saved(house: House, batches: list[list[dict[str, Any]]]) -> None:
    """Staged and accepted, but the row is as it was, to the time of its last change: *unchanged*, without a receipt."""
    remember(house.engine, house.owner(), ENTRY)
    before = memory_rows(house.engine)
    for batch in batches:
        house.model.play(*calls(*batch))
    house.model.play(*says("Noted."))

    told = await house.say("Remember that.")

    assert told.ending.outcome is Outcome.COMPLETED
    assert told.ending.memory.outcome is MemoryOutcome.UNCHANGED
    assert receipts_of(house.engine, told.turn.id) == []
    assert memory_rows(house.engine) == before


@pytest.mark.invariant("I22")
async def test_saved_if_and_only_if_the_row_changed(house: House) -> None:
    """Sixty turns of batches made by chance, over a small vocabulary: whatever is told agrees with the bytes."""
    chance, words = random.Random(22), ["Tea.", "Jazz.", "Graz.", "Go.", "Go at work."]
    seen = set()
    for _ in range(60):
        batch = []
        for _ in range(chance.randint(1, 3)):
            word = chance.choice(words)
            target = chance.choice(["user", "memory"])
            kinds = [adding(word, target), removing(word, target), replacing(word, chance.choice(words), target)]
            batch.append(chance.choice(kinds))
        before = memory_rows(house.engine)
        stages(house.model, *batch)

        told = await house.say("Remember that.")

        memory, after = told.ending.memory, memory_rows(house.engine)
        assert (before != after) == (memory.outcome is MemoryOutcome.COMMITTED) == (memory.receipt_id is not None)
        assert turn_row(house.engine, told.turn.id)["memory_outcome"] == memory.outcome
        seen.add(memory.outcome)
    assert seen == {MemoryOutcome.COMMITTED, MemoryOutcome.UNCHANGED, MemoryOutcome.REFUSED}


async def test_a_refused_batch_that_was_not_mended_is_told_with_its_reason(house: House) -> None:
    """The answer is kept; *Not saved*, and why, with the counts where the document was full."""
    remember(house.engine, house.owner(), "a" * 1370)
    stages(house.model, adding(ENTRY), then="There is no room.")

    told = await house.say("Remember that.")

    assert told.staged is None
    assert (told.ending.memory.outcome, told.ending.memory.reason) == (
        MemoryOutcome.REFUSED,
        RefusalCode.CAPACITY_EXCEEDED,
    )
    full = Capacity(Target.USER, used=1370, limit=LIMITS[Target.USER], needed=1370 + 3 + len(ENTRY))
    assert told.ending.memory.capacity == full
    assert turn_row(house.engine, told.turn.id)["memory_detail"] == full.as_json()
    assert answers_of(house.engine, told.turn.id) == ["There is no room."]


async def test_the_fourth_refused_batch_is_told_to_carry_on(house: House) -> None:
    """R8, as the model hears it; the person is told what was wrong, not that somebody gave up."""
    for _ in range(4):
        house.model.play(*calls(removing("nothing like it")))
    house.model.play(*says("Never mind."))

    told = await house.say("Forget it.")

    codes = [call["code"] for call in turn_row(house.engine, told.turn.id)["tool_rounds"]]
    assert codes == ["match_not_found"] * 3 + ["give_up"]
    assert "Carry on without it" in house.model.requests[-1].messages[-1]["content"]
    assert told.ending.outcome is Outcome.COMPLETED
    assert told.ending.memory.reason is RefusalCode.MATCH_NOT_FOUND


class TestOff:
    """With memory off there is no block, no tool and no write; what is stored stays."""

    @pytest.mark.invariant("I28")
    @pytest.mark.parametrize("by", ["the flag", "the person"])
    async def test_off_means_no_block_no_tool_and_no_write(self, house: House, by: str) -> None:
        """Nothing of memory in the request; a call that comes anyway is a tool that does not exist; rows stay."""
        remember(house.engine, house.owner(), ENTRY)
        before = memory_rows(house.engine)
        if by == "the flag":
            house.memory_enabled = False
        else:
            switch(house.engine, house.owner(), MemoryMode.OFF)
        stages(house.model, adding("Likes jazz."))

        told = await house.say("Remember that.")

        for request in house.model.requests:
            assert "tools" not in request.body
            system = request.messages[0]["content"]
            assert ENTRY not in system
            assert BLOCK_OPENS not in system
            assert "memory_update" not in system
        assert told.staged is None
        assert told.ending.memory.outcome is MemoryOutcome.OFF
        assert turn_row(house.engine, told.turn.id)["memory_status"] == MemoryStatus.OFF
        assert memory_rows(house.engine) == before

    @pytest.mark.invariant("I28")
    async def test_on_again_everything_is_back(self, house: House) -> None:
        """Block, entries, tool, and saving."""
        remember(house.engine, house.owner(), ENTRY)
        house.memory_enabled = False
        house.model.play(*says("Hello."))
        await house.say()

        house.memory_enabled = True
        stages(house.model, adding("Likes jazz."))
        told = await house.say("Remember that.")

        assert ENTRY in house.model.requests[1].messages[0]["content"]
        assert house.model.requests[1].tool_names == ["memory_update"]
        assert told.ending.memory.outcome is MemoryOutcome.COMMITTED
        assert remembered(house.engine, house.owner()).user == (ENTRY, "Likes jazz.")

    @pytest.mark.invariant("I28")
    async def test_asking_mode_reads_and_does_not_write(self, house: House) -> None:
        """What a model stages would wait for the person; until there are proposals it is refused."""
        switch(house.engine, house.owner(), MemoryMode.ASK)
        stages(house.model, adding(ENTRY))

        told = await house.say("Remember that.")

        assert BLOCK_OPENS in house.model.requests[0].messages[0]["content"]
        assert told.ending.memory.reason is RefusalCode.MEMORY_OFF
        assert memory_rows(house.engine) == []


async def test_a_completed_turn_counts_as_activity(house: House) -> None:
    """The owner's first activity is marked at the first turn and not moved; the turns since a review are counted."""
    for script in ([says("One.")], [says("Two.")]):
        house.model.play(*script[0])
    await house.say()
    [first] = rows(house.engine, sa.select(owners))
    await house.say()
    [second] = rows(house.engine, sa.select(owners))

    assert first["first_activity_at"] is not None
    assert second["first_activity_at"] == first["first_activity_at"]
    assert (first["turns_since_review"], second["turns_since_review"]) == (1, 2)


@pytest.mark.parametrize("said", ["a\0b", "\u0000"])
async def test_what_postgresql_cannot_keep_never_costs_an_answer(house: House, said: str) -> None:
    """U+0000 in a model's text is gone or made visible, and the turn ends well."""
    script: Script = (text("Here: ", said), finish("stop"))
    house.model.play(*script)

    told = await house.say()

    assert told.ending.outcome is Outcome.COMPLETED
    assert "\0" not in answers_of(house.engine, told.turn.id)[0]


async def test_the_agent_a_turn_runs_with_keeps_what_it_is_made_of_out_of_logs(house: House) -> None:
    """A prompt holds memory: no `repr` of what a turn is made of shows any of it."""
    remember(house.engine, house.owner(), "Kwagga")
    turn = await house.begin("Kwagga asks.")
    agent = await house.agents.authenticated(turn.owner.agent_id, 1)
    assert isinstance(agent, Agent)

    assert "Kwagga" not in repr(turn) + repr(agent)

    house.model.play(*says("Hello."))
    async for _ in house.run(turn):
        pass


async def test_arguments_that_cannot_be_written_again_are_refused_like_any_others(house: House) -> None:
    """Nested more deeply than JSON can be written: the batch is refused, and the answer comes all the same."""
    house.model.play(tool("memory_update", '{"operations":' * 300 + "1" + "}" * 300), finish("tool_calls"))
    house.model.play(*says("Hello."))

    told = await house.say()

    assert told.ending.outcome is Outcome.COMPLETED
    assert (told.ending.memory.outcome, told.ending.memory.reason) == (
        MemoryOutcome.REFUSED,
        RefusalCode.FIELDS_INVALID,
    )
    asked_again = house.model.requests[-1].messages[-2]
    assert asked_again["tool_calls"][0]["function"]["arguments"] == "{}"
