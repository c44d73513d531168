"""How a turn ends by what its model does: one good end, many others, and after each the conversation goes on."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from agent.conversation import Limits
from agent.outcome import MemoryOutcome, Outcome, Reason
from agent.prompt import ASK_FOR_REPLY
from memory_core.database.tables import turns
from memory_core.errors import RefusalCode
from tests.agent.turning import (
    House,
    adding,
    answers_of,
    assert_agrees,
    assert_nothing_saved,
    assert_valid_request,
    calls,
    everything_stored,
    memory_rows,
    open_house,
    remembered,
    removing,
    says,
    stages,
    turn_row,
)
from tests.database import OrganizationForTests
from tests.fakes.model_server import (
    ModelServer,
    Script,
    chunk,
    cut,
    finish,
    no_done,
    raw,
    stall,
    text,
    tool,
)

#: Stands in arguments, and must be found nowhere but in memory that was saved.
ENTRY = "Keeps a zebra named Kwagga."
BATCH = {"operations": [adding(ENTRY)]}
ERROR = {"error": {"message": f"no room for {ENTRY}", "type": "server_error", "code": None}}
NEXT_ROUND_SAYS_NOTHING: list[Script] = [(finish("stop"),), (finish("stop"),)]

# What the model does after it has staged something: further rounds → the reason, and what memory's receipt says.
BAD_ENDS: dict[str, tuple[list[Script], Reason, RefusalCode]] = {
    "length": ([says("Half an", reason="length")], Reason.TOO_LONG, RefusalCode.CUT_OFF),
    "content filter": ([says("Half an", reason="content_filter")], Reason.FILTERED, RefusalCode.CUT_OFF),
    "no finish reason": ([(text("Half an"),)], Reason.CUT_OFF, RefusalCode.CUT_OFF),
    "no finish reason, no [DONE]": ([(text("Half an"), no_done())], Reason.CUT_OFF, RefusalCode.CUT_OFF),
    "a reason nobody knows": ([says("Half an", reason="tired")], Reason.CUT_OFF, RefusalCode.CUT_OFF),
    "an endless reason": ([says("Half an", reason="tired " * 50)], Reason.CUT_OFF, RefusalCode.CUT_OFF),
    "tool_calls without a call": ([says("Half an", reason="tool_calls")], Reason.CUT_OFF, RefusalCode.CUT_OFF),
    "an error inside a 200": ([(text("Half an"), chunk(ERROR))], Reason.BROKEN, RefusalCode.FAILED),
    "a cut connection": ([(text("Half an"), cut())], Reason.BROKEN, RefusalCode.FAILED),
    "nothing said": (NEXT_ROUND_SAYS_NOTHING, Reason.EMPTY, RefusalCode.CUT_OFF),
    "white space said": ([says(" \n"), says("\t")], Reason.EMPTY, RefusalCode.CUT_OFF),
    "too many rounds": ([calls(adding(f"Fact {n}.")) for n in range(8)], Reason.STEP_CAP, RefusalCode.CUT_OFF),
    "length in a call": ([calls(adding("More."), reason="length")], Reason.TOO_LONG, RefusalCode.CUT_OFF),
    "a filter in a call": ([calls(adding("More."), reason="content_filter")], Reason.FILTERED, RefusalCode.CUT_OFF),
    "no reason in a call": ([(tool("memory_update", BATCH),)], Reason.CUT_OFF, RefusalCode.CUT_OFF),
}


@pytest.mark.invariant("I12")
@pytest.mark.invariant("I21")
@pytest.mark.invariant("I22")
@pytest.mark.invariant("I23")
@pytest.mark.parametrize("end", BAD_ENDS)
async def test_only_a_good_end_commits(house: House, end: str) -> None:
    """Whatever else the model does after staging: failed, not saved and why; the text is kept and marked; nothing of
    the arguments is stored; and the next message is a valid request.
    """
    scripts, reason, refusal = BAD_ENDS[end]
    house.model.play(*calls(adding(ENTRY)))
    for script in scripts:
        house.model.play(*script)

    told = await house.say("I keep a zebra.")

    assert told.staged is not None
    assert (told.ending.outcome, told.ending.reason) == (Outcome.FAILED, reason)
    assert (told.ending.memory.outcome, told.ending.memory.reason) == (MemoryOutcome.DISCARDED, refusal)
    assert_agrees(house.engine, told.turn.id, told.ending, ENTRY)
    assert memory_rows(house.engine) == []
    assert answers_of(house.engine, told.turn.id) == ([told.text] if told.text.strip() else [])
    assert "Kwagga" not in everything_stored(house.engine)
    house.model.play(*says("Here I am."))
    after = await house.say("And now?", conversation_id=told.turn.conversation_id)
    assert after.ending.outcome is Outcome.COMPLETED
    assert_valid_request(house.model.requests[-1].messages)
    assert "Kwagga" not in str(house.model.requests[-1].body)


@pytest.mark.invariant("I21")
@pytest.mark.parametrize("reason", ["length", "content_filter", None])
async def test_a_call_in_an_answer_that_was_cut_is_not_run(house: House, reason: str | None) -> None:
    """Its arguments may look complete and not be: the tool is not asked, nothing is staged."""
    house.model.play(tool("memory_update", BATCH), *([finish(reason)] if reason else []))

    told = await house.say("I keep a zebra.")

    assert told.kinds == ["TurnStarted", "TurnEnded"]
    assert told.ending.memory.outcome is MemoryOutcome.NONE
    assert_nothing_saved(house.engine, told.turn.id, ENTRY)


@pytest.mark.parametrize("reason", ["tool_calls", "stop", "function_call", "eos"])
async def test_calls_decide_over_the_reason(house: House, reason: str) -> None:
    """Servers name a round of tools as they like: it is one if it holds calls and was not cut."""
    house.model.play(*calls(adding(ENTRY), reason=reason))
    house.model.play(*says("Noted."))

    told = await house.say("I keep a zebra.")

    assert told.ending.memory.outcome is MemoryOutcome.COMMITTED
    assert_agrees(house.engine, told.turn.id, told.ending, ENTRY)


async def test_a_model_that_says_nothing_after_its_tools_is_asked_once(house: House) -> None:
    """One more round asks for the reply; it comes, and the turn ends well."""
    house.model.play(*calls(adding(ENTRY)))
    house.model.play(finish("stop"))
    house.model.play(*says("Noted."))

    told = await house.say("I keep a zebra.")

    assert told.ending.memory.outcome is MemoryOutcome.COMMITTED
    assert house.model.requests[-1].messages[-1] == {"role": "user", "content": ASK_FOR_REPLY}
    assert answers_of(house.engine, told.turn.id) == ["Noted."]


async def test_a_model_that_says_nothing_at_all_is_not_asked_again(house: House) -> None:
    """Without a round of tools an empty answer is an empty answer."""
    house.model.play(finish("stop"))

    told = await house.say()

    assert told.ending.reason is Reason.EMPTY
    assert house.model.counters.requests == 1


async def test_eight_rounds_of_tools_and_an_answer_are_a_good_end(house: House) -> None:
    """The step cap counts rounds of tools: the eighth is still run."""
    for number in range(8):
        house.model.play(*calls(adding(f"Fact {number}.")))
    house.model.play(*says("Noted."))

    told = await house.say("Remember all of it.")

    assert told.ending.memory.outcome is MemoryOutcome.COMMITTED
    assert len(remembered(house.engine, house.owner()).user) == 8


@pytest.fixture
async def hasty(model: ModelServer, engine: Engine, organization: OrganizationForTests) -> AsyncIterator[House]:
    """A process whose turns may take less than half a second."""
    async with open_house(engine, organization, model, limits=Limits(turn_seconds=0.4)) as house:
        yield house


@pytest.mark.invariant("I12")
@pytest.mark.parametrize("phase", ["before the first byte", "in mid-answer", "after staging"])
async def test_a_turn_that_takes_too_long_has_failed(hasty: House, phase: str) -> None:
    """The time limit holds in every phase; the model is left alone at once, and nothing is saved."""
    if phase == "after staging":
        hasty.model.play(*calls(adding(ENTRY)))
    hasty.model.play(*([text("Half an")] if phase == "in mid-answer" else []), stall())

    told = await hasty.say("I keep a zebra.")

    assert (told.ending.outcome, told.ending.reason) == (Outcome.FAILED, Reason.TIME_LIMIT)
    assert_nothing_saved(hasty.engine, told.turn.id, ENTRY)
    await hasty.model.idle()
    assert hasty.model.counters.aborted <= 1


@pytest.mark.parametrize(
    "odd",
    [
        {"model": "m\0x"},
        {"model": "m" * 5000},
        {"usage": {"prompt_tokens": 10**30, "completion_tokens": 2**31}},
        {"usage": {"prompt_tokens": True, "completion_tokens": "12"}},
    ],
    ids=["U+0000 in the model's name", "an endless name", "counts that fit no column", "counts that are none"],
)
async def test_what_a_server_says_of_itself_never_costs_an_answer(house: House, odd: dict[str, Any]) -> None:
    """Names and counts are the server's; whatever they are, the answer and the memory are kept."""
    house.model.play(*calls(adding(ENTRY)))
    house.model.play(chunk({"choices": [{"delta": {"content": "Noted."}, "finish_reason": "stop"}], **odd}))

    told = await house.say("I keep a zebra.")

    assert told.ending.memory.outcome is MemoryOutcome.COMMITTED
    assert_agrees(house.engine, told.turn.id, told.ending, ENTRY)


async def test_texts_of_different_rounds_are_different_paragraphs(house: House) -> None:
    """What is told, what is stored and what the next request holds are the same text."""
    house.model.play(text("Let me note that."), *calls(adding(ENTRY)))
    house.model.play(*says("\n Done", "."))

    told = await house.say("I keep a zebra.")

    assert told.text == "Let me note that.\n\nDone."
    assert answers_of(house.engine, told.turn.id) == [told.text]


@pytest.mark.parametrize(
    ("written", "sent_back"),
    [
        ('{"operations": []}', '{"operations":[]}'),
        ('"{\\"operations\\": []}"', '{"operations":[]}'),
        ("", "{}"),
        ("{broken", "{}"),
        ("[1]", "{}"),
    ],
    ids=["an object", "doubly encoded", "empty", "no JSON", "no object"],
)
async def test_a_round_is_given_back_to_the_model_as_it_can_be_read(house: House, written: str, sent_back: str) -> None:
    """What it said, its call with arguments that are a JSON object, and the result under the call's id: strict servers
    refuse anything else.
    """
    house.model.play(text("Let me see."), tool("memory_update", written, id="call_7"), finish("tool_calls"))
    house.model.play(*says("Done."))

    await house.say("I keep a zebra.")

    assistant, result = house.model.requests[-1].messages[-2:]
    assert assistant["content"] == "Let me see."
    assert assistant["tool_calls"] == [
        {"id": "call_7", "type": "function", "function": {"name": "memory_update", "arguments": sent_back}}
    ]
    assert (result["role"], result["tool_call_id"]) == ("tool", "call_7")


async def test_a_tool_that_was_not_offered_is_refused_without_its_name(house: House) -> None:
    """What the model called it is the model's text: neither told, nor stored."""
    house.model.play(tool("kwagga_tool", {"q": "Kwagga"}), finish("tool_calls"))
    house.model.play(*says("Done."))

    told = await house.say("Hello")

    assert told.kinds == ["TurnStarted", "ToolStarted", "TextDelta", "TurnEnded"]
    row = turn_row(house.engine, told.turn.id)
    assert row["tool_rounds"] == [{"tool": "unknown_tool", "code": "unknown_tool", "operations": 0}]
    assert "kwagga" not in everything_stored(house.engine).lower()
    assert told.ending.outcome is Outcome.COMPLETED


async def test_several_calls_of_one_round_are_run_in_order_and_told_once(house: House) -> None:
    """Two batches, one of them refused: the good one is staged, and the waiting chip is told at the end."""
    house.model.play(
        tool("memory_update", BATCH, index=0),
        tool("memory_update", {"operations": [removing("nothing")]}, index=1),
        finish("tool_calls"),
    )
    house.model.play(*says("Noted."))

    told = await house.say("I keep a zebra.")

    assert told.kinds[1:4] == ["ToolStarted", "ToolStarted", "MemoryStaged"]
    assert [call["code"] for call in turn_row(house.engine, told.turn.id)["tool_rounds"]] == [
        "staged",
        "match_not_found",
    ]
    assert remembered(house.engine, house.owner()).user == (ENTRY,)


@pytest.mark.invariant("I23")
async def test_a_good_end_stores_no_argument_outside_of_memory(house: House) -> None:
    """Saved words stand in memory and in the receipt's undo; the turn holds names, codes and counts."""
    stages(house.model, adding(ENTRY))

    told = await house.say("I keep a zebra.")

    row = turn_row(house.engine, told.turn.id)
    assert row["tool_rounds"] == [{"tool": "memory_update", "code": "staged", "operations": 1}]
    assert "Kwagga" not in str(row)
    house.model.play(*says("Here I am."))
    await house.say("And now?", conversation_id=told.turn.conversation_id)
    system, *rest = house.model.requests[-1].messages
    assert_valid_request([system, *rest])
    assert "Kwagga" in system["content"]
    assert "Kwagga" not in str(rest)


@pytest.mark.invariant("I12")
@pytest.mark.parametrize("fault", [{"error": {"code": 429}}, {"object": "error", "message": ENTRY}, {"error": "x"}])
async def test_an_error_object_is_one_wherever_it_stands(house: House, fault: dict[str, Any]) -> None:
    """Also before the first word of a second round."""
    house.model.play(*calls(adding(ENTRY)))
    house.model.play(chunk(fault))

    told = await house.say("I keep a zebra.")

    assert told.ending.outcome is Outcome.FAILED
    assert_nothing_saved(house.engine, told.turn.id, ENTRY)
    assert "Kwagga" not in everything_stored(house.engine)


@pytest.mark.invariant("I12")
async def test_a_fault_of_our_own_ends_the_turn_in_good_order(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is raised inside a turn: it has failed, it is recorded, the reader is told."""

    def fail(*_: object) -> str:
        raise ZeroDivisionError("Kwagga")

    monkeypatch.setattr("agent.conversation._run_tool", fail)
    house.model.play(text("Half an"), *calls(adding(ENTRY)))

    told = await house.say("I keep a zebra.")

    assert (told.ending.outcome, told.ending.reason) == (Outcome.FAILED, Reason.INTERNAL)
    assert_nothing_saved(house.engine, told.turn.id, ENTRY)
    assert answers_of(house.engine, told.turn.id) == ["Half an"]
    assert house.running.ids == ()


@pytest.mark.invariant("I21")
async def test_nonsense_after_the_answer_is_a_failure(house: House) -> None:
    """A stream that breaks before its finish reason has not ended well, however much it has said."""
    house.model.play(*calls(adding(ENTRY)))
    house.model.play(text("All of it."), raw(b"data: {nonsense\n\n"))

    told = await house.say("I keep a zebra.")

    assert told.ending.reason is Reason.BROKEN
    assert_nothing_saved(house.engine, told.turn.id, ENTRY)


@pytest.mark.invariant("I31")
async def test_what_a_server_names_itself_is_in_no_record(house: House) -> None:
    """A server may echo words in its model's name or its finish reason: the turn's row keeps our names for both."""
    house.model.play(
        chunk({"model": "Kwagga", "choices": [{"delta": {"content": "Noted."}, "finish_reason": "Kwagga"}]})
    )

    told = await house.say("I keep a zebra.")

    assert told.ending.finish_reason == "other"
    with house.engine.begin() as connection:
        row = connection.execute(sa.select(turns).where(turns.c.id == told.turn.id)).one()
    assert "Kwagga" not in str(row)
