"""The model's tool: its schema, and every answer it can give."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agent.outcome import Capacity
from agent.prompt import HELD_BACK
from agent.tools import MEMORY_FREE, WITH_MEMORY
from agent.tools.memory_update import ADVICE, NAME, REFUSAL_BUDGET, SCHEMA, MemoryTool
from memory_core.document import LIMITS, Snapshot, Target
from memory_core.errors import RefusalCode
from memory_core.ledger import MemoryLedger
from tests.agent.turning import adding, removing, replacing

#: Codes a tool call can be answered with. The others belong to turns, the panel, undo and approval.
TOOL_CODES = tuple(RefusalCode)[: tuple(RefusalCode).index(RefusalCode.GIVE_UP) + 1]


def a_tool(*user: str, memory: tuple[str, ...] = ()) -> MemoryTool:
    return MemoryTool(MemoryLedger(Snapshot(user, memory)))


def call(tool: MemoryTool, *operations: dict[str, Any]) -> dict[str, Any]:
    answer, code = tool.call({"operations": list(operations)})
    value: dict[str, Any] = json.loads(answer)
    assert code == value.get("code", value["status"])
    return value


def objects(schema: object) -> Iterator[dict[str, Any]]:
    """Every JSON schema of an object inside a schema."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for value in schema.values():
            yield from objects(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from objects(value)


@pytest.mark.invariant("I01")
class TestSchema:
    """What the model is shown."""

    def test_no_level_takes_more_than_it_names(self) -> None:
        """`additionalProperties` is false on each object of it, and there are two."""
        found = list(objects(SCHEMA["function"]["parameters"]))
        assert len(found) == 2
        assert all(schema["additionalProperties"] is False for schema in found)

    def test_the_top_level_has_no_combinator(self) -> None:
        """Several servers refuse a tool whose parameters are anything but a plain object."""
        parameters = SCHEMA["function"]["parameters"]
        assert parameters["type"] == "object"
        assert not {"oneOf", "anyOf", "allOf", "not", "if", "enum", "$ref"} & parameters.keys()

    def test_there_is_no_field_for_a_person(self) -> None:
        """Five names in all, none of which says whose memory it is."""
        names = {name for schema in objects(SCHEMA["function"]["parameters"]) for name in schema["properties"]}
        assert names == {"operations", "target", "action", "match", "content"}

    def test_the_values_are_those_of_the_rules(self) -> None:
        """Targets, actions and the size of a batch."""
        operations = SCHEMA["function"]["parameters"]["properties"]["operations"]
        item = operations["items"]["properties"]
        assert (operations["minItems"], operations["maxItems"]) == (1, 20)
        assert item["target"]["enum"] == ["user", "memory"]
        assert item["action"]["enum"] == ["add", "replace", "remove"]

    def test_it_is_a_tool_of_signed_in_people_only(self) -> None:
        """The agent that knows nobody is not offered it."""
        assert [schema["function"]["name"] for _, schema in WITH_MEMORY] == [NAME]
        assert MEMORY_FREE == ()


def test_a_staged_batch_is_told_short_and_final() -> None:
    """Status, both sizes and a note that says *staged* and not *saved*; no entries."""
    answer = call(a_tool("Likes tea."), adding("Likes jazz."), adding("Deploys on Fridays.", "memory"))

    assert answer == {"status": "staged", "user": "24/1375", "memory": "19/2200", "note": answer["note"]}
    assert answer["note"].startswith("Staged, not saved.")


CONTROL, DELIMITER = "Likes\x07tea", "a\n§\nb"
FULL = "a" * LIMITS[Target.USER]
REFUSALS: list[tuple[str, RefusalCode, int | None, dict[str, Any]]] = [
    ("an unknown key", RefusalCode.FIELDS_INVALID, 0, {**adding("x"), "note": "y"}),
    ("an add with a match", RefusalCode.FIELDS_INVALID, 0, {**adding("x"), "match": "y"}),
    ("a replace without content", RefusalCode.FIELDS_INVALID, 0, {**removing("tea"), "action": "replace"}),
    ("nothing to say", RefusalCode.ENTRY_EMPTY, 0, adding(" \n")),
    ("a delimiter", RefusalCode.ENTRY_RESERVED, 0, adding(DELIMITER)),
    ("a control character", RefusalCode.ENTRY_CONTROL, 0, adding(CONTROL)),
    ("a replace that makes a duplicate", RefusalCode.ENTRY_DUPLICATE, 0, replacing("Likes tea.", "Likes jazz.")),
    ("a remove without a match", RefusalCode.MATCH_MISSING, 0, {"target": "user", "action": "remove"}),
    ("a match that is nowhere", RefusalCode.MATCH_NOT_FOUND, 0, removing("coffee")),
    ("a match in two entries", RefusalCode.MATCH_AMBIGUOUS, 0, removing("Likes")),
    ("more than fits", RefusalCode.CAPACITY_EXCEEDED, None, adding(FULL)),
]


@pytest.mark.invariant("I07")
@pytest.mark.parametrize(("code", "operation", "bad"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
def test_a_refusal_teaches_and_changes_nothing(code: RefusalCode, operation: int | None, bad: dict[str, Any]) -> None:
    """The code, which operation, that nothing was applied, both sizes, the entries, and advice in words."""
    tool = a_tool("Likes tea.", "Likes jazz.", memory=("Deploys on Fridays.",))
    assert tool.ledger is not None
    before = tool.ledger.snapshot

    answer = call(tool, bad)

    assert answer == {
        "status": "refused",
        "code": code,
        "operation": operation,
        "applied": "nothing",
        "user": "24/1375",
        "memory": "19/2200",
        "entries": {"user": ["Likes tea.", "Likes jazz."], "memory": ["Deploys on Fridays."]},
        "advice": ADVICE[code],
    }
    assert (tool.ledger.snapshot, tool.ledger.batches) == (before, [])
    assert tool.refused == code


@pytest.mark.invariant("I07")
def test_the_operation_that_was_refused_is_named_by_its_place() -> None:
    """And the good ones before it are not staged either."""
    tool = a_tool()

    answer = call(tool, adding("Likes tea."), adding("Likes jazz."), adding(CONTROL))

    assert answer["operation"] == 2
    assert answer["entries"] == {"user": [], "memory": []}
    assert tool.ledger is not None
    assert tool.ledger.is_empty


@pytest.mark.invariant("I01")
@pytest.mark.parametrize("name", ["user_id", "subject", "owner", "owner_id", "agent_id", "tenant", "user"])
@pytest.mark.parametrize("place", ["beside the operations", "in an operation"])
def test_an_identity_that_is_sent_anyway_is_refused(name: str, place: str) -> None:
    """By any name, at either level; nothing is staged."""
    tool = a_tool("Likes tea.")
    sent: dict[str, Any] = {"operations": [adding("Likes jazz.")]}
    (sent if place == "beside the operations" else sent["operations"][0])[name] = "somebody-else"

    _, code = tool.call(sent)

    assert code == "fields_invalid"
    assert tool.ledger is not None
    assert tool.ledger.is_empty


@pytest.mark.parametrize("sent", [None, {}, [], "operations", 7, {"operations": None}, {"operations": {}}])
def test_arguments_of_any_other_shape_are_refused_in_the_ordinary_way(sent: object) -> None:
    """Nothing a model can send raises."""
    _, code = a_tool().call(sent)
    assert code == "fields_invalid"


@pytest.mark.parametrize("count", [0, 21])
def test_a_batch_has_one_to_twenty_operations(count: int) -> None:
    """None, or more than twenty, is refused with a code of its own."""
    assert call(a_tool(), *[adding(f"Fact {n}.") for n in range(count)])["code"] == "batch_size"


def test_a_full_document_is_told_with_the_counts_the_person_will_see() -> None:
    """The receipt says how full it is and what was needed."""
    tool = a_tool("Likes tea.")

    call(tool, adding(FULL))

    assert tool.capacity == Capacity(Target.USER, used=10, limit=1375, needed=10 + 3 + 1375)


def test_a_later_success_clears_the_refusal() -> None:
    """A batch that was mended is not reported as refused."""
    tool = a_tool()
    call(tool, adding(FULL), adding("x"))

    call(tool, adding("Likes tea."))

    assert (tool.refused, tool.capacity) == (None, None)


def test_three_refusals_may_be_mended_and_the_fourth_is_final() -> None:
    """R8: then every further batch, a good one too, is told to carry on; what was staged before stays."""
    tool = a_tool()
    call(tool, adding("Likes tea."))

    codes = [call(tool, removing("coffee"))["code"] for _ in range(REFUSAL_BUDGET + 1)]
    after = call(tool, adding("Likes jazz."))

    assert codes == ["match_not_found"] * REFUSAL_BUDGET + ["give_up"]
    assert (after["code"], after["applied"]) == ("give_up", "nothing")
    assert tool.ledger is not None
    assert tool.ledger.snapshot.user == ("Likes tea.",)
    assert tool.refused == "match_not_found"


def test_three_refusals_and_a_good_batch_is_staged() -> None:
    """The budget is for mending: the third mend may succeed."""
    tool = a_tool()
    for _ in range(REFUSAL_BUDGET):
        call(tool, removing("coffee"))

    assert call(tool, adding("Likes tea."))["status"] == "staged"


@pytest.mark.invariant("I19")
def test_unavailable_memory_answers_every_call_the_same() -> None:
    """No sizes and no entries, for they are not known; and never *give up*, for nothing was wrong with the batch."""
    tool = MemoryTool(None)

    answers = [call(tool, adding("Likes tea.")) for _ in range(REFUSAL_BUDGET + 2)]

    assert all(answer == answers[0] for answer in answers)
    assert answers[0] == {
        "status": "refused",
        "code": "memory_unavailable",
        "operation": None,
        "applied": "nothing",
        "advice": ADVICE[RefusalCode.MEMORY_UNAVAILABLE],
    }
    assert tool.refused == "memory_unavailable"


def test_a_held_back_entry_is_not_shown_in_a_refusal_either() -> None:
    """A refusal shows what the prompt showed."""
    hidden = "Likes\u200btea"

    answer, _ = a_tool(hidden, "Likes jazz.").call({"operations": [removing("coffee")]})

    assert json.loads(answer)["entries"]["user"] == [HELD_BACK, "Likes jazz."]
    assert hidden not in answer


def test_every_code_of_the_tool_has_its_advice() -> None:
    """`memory_off` is missing on purpose: when memory is off the tool is not offered."""
    assert set(ADVICE) == set(TOOL_CODES) - {RefusalCode.MEMORY_OFF}
