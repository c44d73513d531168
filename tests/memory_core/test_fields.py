"""The field contract of the model's tool: what is accepted, and that nothing else is."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memory_core.document import Snapshot
from memory_core.operations import (
    BATCH_MAX_OPERATIONS,
    OPERATION_KEYS,
    Action,
    Operation,
    apply_operations,
    parse_operations,
)
from tests.memory_core.building import USER, refusal
from tests.memory_core.strategies import LAWS


def operation_json(**fields: object) -> dict[str, Any]:
    """One operation as the model sends it, with some fields changed."""
    return {"target": "user", "action": "add", "content": "Likes tea"} | fields


@pytest.mark.invariant("I01")
@LAWS
@given(
    st.sampled_from(["user_id", "userId", "owner", "owner_id", "subject", "sub", "email", "organization", "agent"])
    | st.text()
)
def test_an_identity_or_any_other_extra_key_is_refused(key: str) -> None:
    """The tool has four fields; a fifth at either level is refused, whatever it is called and even when it is null."""
    assert sorted(OPERATION_KEYS) == ["action", "content", "match", "target"]
    assume(key not in OPERATION_KEYS | {"operations"})
    for value in ("somebody", None):
        inner = refusal(parse_operations, {"operations": [operation_json(), operation_json(**{key: value})]})
        outer = refusal(parse_operations, {"operations": [operation_json()], key: value})
        assert (inner.code, inner.operation, outer.code, outer.operation) == (
            "fields_invalid",
            1,
            "fields_invalid",
            None,
        )


CONTRACT = {  # (match present, content present) → the code of a refusal; absent here: accepted
    "add": {(False, False): "fields_invalid", (True, False): "fields_invalid", (True, True): "fields_invalid"},
    "replace": {(False, False): "match_missing", (False, True): "match_missing", (True, False): "fields_invalid"},
    "remove": {(False, False): "match_missing", (False, True): "match_missing", (True, True): "fields_invalid"},
}


@pytest.mark.invariant("I02")
@pytest.mark.parametrize("null", [True, False], ids=["null", "absent"])
@pytest.mark.parametrize("has_content", [True, False])
@pytest.mark.parametrize("has_match", [True, False])
@pytest.mark.parametrize("action", list(Action))
def test_each_action_takes_exactly_its_fields_and_null_is_absent(
    action: Action, has_match: bool, has_content: bool, null: bool
) -> None:
    """The whole field contract: every combination of action, match and content, by the tool and by our own code."""
    fields: dict[str, str | None] = {"match": None, "content": None} if null else {}
    fields |= ({"match": "Likes"} if has_match else {}) | ({"content": "Likes milk"} if has_content else {})
    raw = {"operations": [{"target": "user", "action": action.value, **fields}]}
    code = CONTRACT[action].get((has_match, has_content))
    if code is None:
        assert parse_operations(raw) == (Operation(USER, action, fields.get("match"), fields.get("content")),)
    else:
        parsed = refusal(parse_operations, {"operations": [operation_json(), *raw["operations"]]})
        assert (parsed.code, parsed.operation, parsed.target) == (code, 1, USER)
        operation = Operation(USER, action, fields.get("match"), fields.get("content"))
        own = refusal(apply_operations, Snapshot(user=("Likes tea",)), [operation])
        assert (own.code, own.operation, own.target) == (code, 0, USER)


@pytest.mark.invariant("I02")
@pytest.mark.parametrize("field", ["match", "content", "target", "action"])
@pytest.mark.parametrize("value", [True, False, 0, 1, 1.5, [], {}, ["user"]], ids=repr)
def test_only_strings_are_strings(field: str, value: object) -> None:
    """Booleans, numbers, lists and objects are refused where a string belongs, not turned into one."""
    raw = operation_json(action="replace", match="x") | {field: value}
    refused = refusal(parse_operations, {"operations": [operation_json(), raw]})
    assert (refused.code, refused.operation) == ("fields_invalid", 1)


@pytest.mark.invariant("I02")
@pytest.mark.parametrize(
    "fields",
    [
        {"target": "User"},
        {"target": "other"},
        {"target": None},
        {"action": "ADD"},
        {"action": "append"},
        {"action": None},
    ],
)
def test_an_unknown_target_or_action_is_refused(fields: dict[str, object]) -> None:
    """Targets and actions are exact words."""
    refused = refusal(parse_operations, {"operations": [operation_json(**fields)]})
    assert (refused.code, refused.operation) == ("fields_invalid", 0)


@pytest.mark.invariant("I02")
@pytest.mark.parametrize("missing", ["target", "action"])
def test_a_missing_target_or_action_is_refused(missing: str) -> None:
    """Both are required."""
    raw = {key: value for key, value in operation_json().items() if key != missing}
    assert refusal(parse_operations, {"operations": [raw]}).code == "fields_invalid"


@pytest.mark.invariant("I02")
@pytest.mark.parametrize(
    "raw",
    [None, "x", 1, [], [operation_json()], {}, {"operations": None}, {"operations": {}}, {"operations": "x"}],
    ids=repr,
)
def test_anything_but_an_object_with_a_list_of_operations_is_refused(raw: object) -> None:
    """The tool's arguments are one object with one list."""
    refused = refusal(parse_operations, raw)
    assert (refused.code, refused.operation) == ("fields_invalid", None)


@pytest.mark.invariant("I02")
@pytest.mark.parametrize("item", [None, "add", 1, [], [operation_json()]], ids=repr)
def test_an_operation_that_is_no_object_is_refused(item: object) -> None:
    """Each operation is an object of its own."""
    refused = refusal(parse_operations, {"operations": [operation_json(), item]})
    assert (refused.code, refused.operation) == ("fields_invalid", 1)


@pytest.mark.invariant("I02")
@pytest.mark.parametrize("size", [0, 1, 2, 20, 21, 100])
def test_a_batch_of_the_tool_holds_one_to_twenty_operations(size: int) -> None:
    """1 and 20 are accepted; none and 21 are refused with the number and the limit."""
    raw = {"operations": [operation_json(content=f"fact {number}") for number in range(size)]}
    if 1 <= size <= BATCH_MAX_OPERATIONS == 20:
        assert [operation.content for operation in parse_operations(raw)] == [
            f"fact {number}" for number in range(size)
        ]
    else:
        refused = refusal(parse_operations, raw)
        assert (refused.code, refused.limit, refused.needed, refused.operation) == ("batch_size", 20, size, None)
