"""The dialects in which servers send tool calls, and the whole calls each stands for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import ModelStreamBroken
from agent.models.protocol import ToolCall
from agent.models.tool_calls import MOST_CALLS, ToolCallAssembly
from tests.agent.models.asking import UNHURRIED

Delta = list[Any]
ONE, TWO = '{"operations": [{"a": "}{"}]}', '{"query": "tea"}'


def piece(arguments: Any = None, *, index: int | None = None, id: str | None = None, name: str | None = None) -> Any:
    """One entry of a delta, with the fields that are given."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    fields = (("index", index), ("id", id), ("function", function))
    return {key: value for key, value in fields if value is not None}


def assemble(*deltas: Delta) -> tuple[ToolCall, ...]:
    assembly = ToolCallAssembly()
    for delta in deltas:
        assembly.add(delta)
    return assembly.finish()


def fragments(text: str, size: int = 5) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


DIALECTS: dict[str, list[Delta]] = {
    "as written": [
        [piece("", index=0, id="a", name="one")],
        *[[piece(part, index=0)] for part in fragments(ONE)],
        [piece("", index=1, id="b", name="two")],
        *[[piece(part, index=1)] for part in fragments(TWO)],
    ],
    "interleaved": [
        [piece("", index=0, id="a", name="one"), piece("", index=1, id="b", name="two")],
        [piece(ONE[:9], index=0), piece(TWO[:4], index=1)],
        [piece(TWO[4:], index=1), piece(ONE[9:], index=0)],
    ],
    "no index": [
        [piece("", id="a", name="one")],
        *[[piece(part)] for part in fragments(ONE)],
        [piece("", id="b", name="two")],
        *[[piece(part)] for part in fragments(TWO)],
    ],
    "no index, the id in each piece": [
        [piece("", id="a", name="one"), piece("", id="b", name="two")],
        [piece(TWO[:4], id="b"), piece(ONE[:9], id="a")],
        [piece(ONE[9:], id="a"), piece(TWO[4:], id="b")],
    ],
    "every index 0": [
        [piece("", index=0, id="a", name="one")],
        *[[piece(part, index=0)] for part in fragments(ONE)],
        [piece("", index=0, id="b", name="two")],
        *[[piece(part, index=0)] for part in fragments(TWO)],
    ],
    "every index 0, the id in each piece": [
        [piece("", index=0, id="a", name="one")],
        *[[piece(part, index=0, id="a")] for part in fragments(ONE)],
        [piece("", index=0, id="b", name="two")],
        *[[piece(part, index=0, id="b")] for part in fragments(TWO)],
    ],
    "the name in each piece": [
        *[[piece(part, index=0, id="a", name="one")] for part in fragments(ONE)],
        *[[piece(part, index=1, id="b", name="two")] for part in fragments(TWO)],
    ],
    "whole calls at once": [
        [piece(ONE, index=0, id="a", name="one"), piece(TWO, index=1, id="b", name="two")],
    ],
    "id before name": [
        [piece(index=0, id="a")],
        [piece(index=0, name="one")],
        [piece(ONE, index=0)],
        [piece(index=1, id="b")],
        [piece(index=1, name="two")],
        [piece(TWO, index=1)],
    ],
    "arguments as an object": [
        [piece(json.loads(ONE), index=0, id="a", name="one"), piece(json.loads(TWO), index=1, id="b", name="two")],
    ],
    "nulls for what is absent": [
        [{"index": 0, "id": "a", "type": None, "function": {"name": "one", "arguments": None}}],
        [{"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": ONE}}],
        [{"index": 1, "id": "b", "type": "function", "function": {"name": "two", "arguments": TWO}}],
        [{"index": 1, "id": None, "function": None}],
    ],
}  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_gives_the_same_calls(dialect: str) -> None:
    """Two calls with their ids, names and arguments, in their order."""
    first, second = assemble(*DIALECTS[dialect])

    assert (first.id, first.name, json.loads(first.arguments)) == ("a", "one", json.loads(ONE))
    assert (second.id, second.name, json.loads(second.arguments)) == ("b", "two", json.loads(TWO))


WITHOUT_IDS: dict[str, list[Delta]] = {
    "index only": [
        [piece("", index=0, name="one"), piece("", index=1, name="two")],
        [piece(ONE, index=0), piece(TWO, index=1)],
    ],
    "neither index nor id": [
        [piece("", name="one")],
        *[[piece(part)] for part in fragments(ONE)],
        [piece("", name="two")],
        *[[piece(part)] for part in fragments(TWO)],
    ],
    "both in one delta": [[piece("", name="one"), piece(name="two")], [piece(TWO)]],
    "every index 0, whole": [[piece(ONE, index=0, name="one")], [piece(TWO, index=0, name="two")]],
    "empty ids": [[piece(ONE, index=0, id="", name="one"), piece(TWO, index=1, id="", name="two")]],
}


@pytest.mark.parametrize("dialect", WITHOUT_IDS)
def test_calls_without_ids_get_different_ones(dialect: str) -> None:
    """The next request has to name each call: ids are made up where a server gives none."""
    calls = assemble(*WITHOUT_IDS[dialect])

    assert [call.name for call in calls] == ["one", "two"]
    assert json.loads(calls[1].arguments) == json.loads(TWO)
    assert len({call.id for call in calls}) == 2
    assert all(call.id for call in calls)


def test_the_same_tool_twice_without_ids_is_two_calls() -> None:
    """A named piece after complete arguments opens the next call, also under the same name and index."""
    calls = assemble([piece(ONE, index=0, name="one")], [piece(TWO, index=0, name="one")])

    assert [json.loads(call.arguments) for call in calls] == [json.loads(ONE), json.loads(TWO)]


def test_an_id_used_twice_is_replaced_once() -> None:
    """Two calls never share an id, whatever the server says; a made-up one meets no real one."""
    calls = assemble(
        [piece("{}", index=0, id="call_1", name="one")],
        [piece("{}", index=1, id="call_1", name="two"), piece("{}", index=2, id="call_2", name="three")],
    )

    assert calls[0].id == "call_1"
    assert len({call.id for call in calls}) == 3


def test_another_id_in_each_piece_stays_one_call() -> None:
    """Servers that make up an id for every fragment mean one call all the same."""
    parts = [[piece(part, index=0, id=f"id-{number}")] for number, part in enumerate(fragments(ONE), start=1)]

    [call] = assemble([piece("", index=0, id="id-0", name="one")], *parts)

    assert (call.id, call.name, call.arguments) == ("id-0", "one", ONE)


@pytest.mark.parametrize("names", [["memory", "_update"], ["memory", "memory_update"], ["memory_update"] * 3])
def test_a_name_may_come_in_pieces_or_again(names: list[str]) -> None:
    """Continued, growing or repeated before the arguments: the name is the same."""
    [call] = assemble(*[[piece(index=0, id="a", name=name)] for name in names], [piece(ONE, index=0)])

    assert call.name == "memory_update"


def test_no_pieces_are_no_calls() -> None:
    """A round without tool calls ends with none."""
    assert assemble() == assemble([]) == ()


@pytest.mark.parametrize("pieces", ["text", {"index": 0}, ["text"], [{"function": "text"}], [None]])
def test_a_wrong_shape_is_refused(pieces: Any) -> None:
    """A call is acted upon: what cannot be read exactly is no call."""
    with pytest.raises(ModelStreamBroken):
        assemble(pieces)


def test_a_call_without_a_name_is_refused() -> None:
    """Nothing could be done with it, and no server would take it back in the next request."""
    with pytest.raises(ModelStreamBroken):
        assemble([piece(ONE, index=0, id="a")])


@UNHURRIED
@given(st.lists(st.integers(1, 200), max_size=30), st.text())
def test_no_fragmentation_changes_the_arguments(sizes: list[int], text: str) -> None:
    """However the arguments are cut, they come together as they were."""
    written = json.dumps({"text": text})
    parts, rest = [], written
    for size in sizes:
        parts.append(rest[:size])
        rest = rest[size:]
    deltas = [[piece(part, index=0)] for part in [*parts, rest]]

    [call] = assemble([piece("", index=0, id="a", name="one")], *deltas)

    assert call.arguments == written


def test_an_endless_row_of_calls_breaks_the_answer_off() -> None:
    """Finding the call of a piece looks at each: thousands of them would hold up every other turn."""
    assembly = ToolCallAssembly()
    piece = {"function": {"name": "memory_update", "arguments": "{}"}}
    for number in range(MOST_CALLS):
        assembly.add([{"index": number, "id": f"call-{number}", **piece}])
    assert len(assembly.finish()) == MOST_CALLS
    with pytest.raises(ModelStreamBroken):
        assembly.add([{"index": MOST_CALLS, "id": "one-more", **piece}])


def test_arguments_nested_too_deeply_to_be_written_are_no_object() -> None:
    """A server that sends objects can send more than can be written as JSON again."""
    deep: Any = {}
    for _ in range(400):
        deep = {"a": deep}
    assembly = ToolCallAssembly()
    assembly.add([{"index": 0, "id": "c", "function": {"name": "memory_update", "arguments": deep}}])
    [call] = assembly.finish()
    assert call.arguments == "null"
