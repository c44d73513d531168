"""Reading arguments: whatever a model writes there becomes a value that the tool's own rules can judge."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.models.arguments import tool_arguments
from agent.models.protocol import ToolCall
from tests.agent.models.asking import UNHURRIED


def read(arguments: str) -> object:
    return tool_arguments(ToolCall("a", "memory_update", arguments))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        ("  \n", {}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('""', {}),
        ("[1]", [1]),
        ("7", 7),
        ("null", None),
        ('"just words"', "just words"),
        ('{"a": ', None),
        ("not JSON", None),
        ("{'a': 1}", None),
        ('{"a": NaN}', None),
        ("[" * 100_000, None),
    ],
)
def test_arguments_become_a_value(written: str, expected: object) -> None:
    """Empty is no arguments, doubly encoded is read once more, what is no object stays what it is, no JSON is None."""
    assert read(written) == expected


@UNHURRIED
@given(st.text())
def test_reading_never_fails(written: str) -> None:
    """No text makes it raise."""
    read(written)


JSON_OBJECTS = st.dictionaries(st.text(), st.text() | st.integers(-(2**53), 2**53) | st.booleans() | st.none())


@UNHURRIED
@given(JSON_OBJECTS)
def test_an_object_comes_back_however_often_it_was_encoded(value: dict[str, object]) -> None:
    """Once or twice encoded, the object is the same."""
    assert read(json.dumps(value)) == value
    assert read(json.dumps(json.dumps(value))) == value


@UNHURRIED
@given(st.text(st.characters(categories=["Cs"]), min_size=1))
def test_no_lone_surrogate_leaves(text: str) -> None:
    """Escaped lone surrogates are read as replacement characters: they cannot be stored, sent or shown."""
    value = read(json.dumps({"a": text}))

    assert isinstance(value, dict)
    assert value["a"].encode("utf-8")
