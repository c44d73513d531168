"""The decoder: from bytes to text, calls and end, with the fields that matter and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import ModelFault
from agent.models.decoder import ChunkDecoder
from agent.models.protocol import RoundEnd
from tests.agent.models.asking import UNHURRIED


def chunk(delta: Any, **choice: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": delta, **choice}]}


def framed(*chunks: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n" for value in chunks)


def read(*chunks: Any) -> tuple[str, ChunkDecoder]:
    decoder = ChunkDecoder()
    text = decoder.feed(framed(*chunks)) + decoder.end()
    return text, decoder


@pytest.mark.parametrize(
    ("delta", "text"),
    [
        ({"content": "Hello"}, "Hello"),
        ({"content": ""}, ""),
        ({"content": None}, ""),
        ({}, ""),
        (None, ""),
        ({"refusal": "I can't."}, "I can't."),
        ({"content": "Well, ", "refusal": "no."}, "Well, no."),
        ({"content": "x", "reasoning_content": "secret thoughts"}, "x"),
        ({"reasoning": "secret thoughts"}, ""),
        ({"content": [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "b"}, "c"]}, "a"),
        ({"content": "a\x00b"}, "ab"),
    ],
)
def test_a_delta_speaks_its_text(delta: Any, text: str) -> None:
    """Content and refusals are spoken, reasoning is not; null, absent and empty content is nothing."""
    assert read(chunk(delta))[0] == text


def test_a_message_in_a_chunk_speaks_too() -> None:
    """Some servers send `message` where `delta` belongs."""
    assert read({"choices": [{"message": {"content": "Hello"}}]})[0] == "Hello"


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk({"role": "assistant", "content": ""}), {"choices": []}, {"choices": None}, {"usage": None}],
        [{"id": "x"}, {"choices": [{"index": 0}]}, {"choices": [{"delta": None}]}],
    ],
)
def test_chunks_that_say_nothing_are_no_beginning(chunks: list[Any]) -> None:
    """A role, an empty list, a missing delta: the model has not begun."""
    text, decoder = read(*chunks)

    assert text == ""
    assert not decoder.has_begun
    assert decoder.fault is None


@pytest.mark.parametrize(
    "begins",
    [
        chunk({"content": "a"}),
        chunk({"refusal": "a"}),
        chunk({"reasoning_content": "a"}),
        chunk({"reasoning": "a"}),
        chunk({"tool_calls": [{"index": 0, "function": {"name": "one"}}]}),
        chunk({}, finish_reason="stop"),
    ],
)
def test_any_sign_of_the_model_is_its_beginning(begins: Any) -> None:
    """Text, a refusal, reasoning, a tool call, an end."""
    assert read(begins)[1].has_begun


def test_counts_come_from_any_chunk_and_the_last_hold() -> None:
    """Usage in the last chunk, in every chunk, or beside the finish reason."""
    first = {**chunk({"content": "a"}), "usage": {"prompt_tokens": 3, "completion_tokens": 1}}
    last = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}

    _, decoder = read(first, chunk({}, finish_reason="stop"), last)

    assert decoder.finish() == RoundEnd("stop", (), 3, 2, "m")


@pytest.mark.parametrize("usage", [{}, [], "many", {"prompt_tokens": "3", "completion_tokens": -1}, None])
def test_counts_that_are_none_are_left_out(usage: Any) -> None:
    """Missing or senseless counts are no counts, and no fault."""
    _, decoder = read({**chunk({}, finish_reason="stop"), "usage": usage})

    assert decoder.fault is None
    assert decoder.finish() == RoundEnd("stop", model="m")


@pytest.mark.parametrize("reason", [None, "", 7])
def test_an_empty_finish_reason_is_none(reason: Any) -> None:
    """Some servers send an empty string until the end: only a word is a reason."""
    assert read(chunk({"content": "a"}, finish_reason=reason))[1].finish().finish_reason is None


def test_text_split_inside_a_character_comes_whole() -> None:
    """A character whose bytes arrive in two reads is given with the second."""
    data = framed(chunk({"content": "grün 👩‍👩‍👧"}))
    place = data.index("ü".encode()) + 1
    decoder = ChunkDecoder()

    assert decoder.feed(data[:place]) == ""
    assert decoder.feed(data[place:]) == "grün 👩‍👩‍👧"


def test_half_an_emoji_is_replaced() -> None:
    """A surrogate escaped alone, and bytes that are no UTF-8, are read as replacement characters."""
    decoder = ChunkDecoder()

    text = decoder.feed(b'data: {"choices":[{"delta":{"content":"a\\ud83d"}}]}\n\n')
    text += decoder.feed(b'data: {"choices":[{"delta":{"content":"b\xff"}}]}\n\n')

    assert text == "a�b�"
    assert decoder.fault is None


def test_a_fault_ends_the_reading_but_loses_no_text() -> None:
    """What was said before it is returned; what follows is not read."""
    decoder = ChunkDecoder()

    text = decoder.feed(framed(chunk({"content": "a"}), {"error": {"code": 429}}, chunk({"content": "b"})))

    assert text == "a"
    assert decoder.is_done
    assert decoder.fault is not None
    assert (decoder.fault.code, decoder.fault.status) == (ModelFault.ERROR_IN_STREAM, 429)


@pytest.mark.parametrize("chunks", [[{"error": None}], [{"error": ""}], [{"error": False}], [{"object": "list"}]])
def test_an_empty_error_field_is_none(chunks: list[Any]) -> None:
    """Servers that send the field in every chunk mean no error by it."""
    assert read(*chunks)[1].fault is None


FIELDS = ["choices", "delta", "content", "tool_calls", "function", "index", "id", "name", "arguments", "error"]
FIELDS += ["usage", "finish_reason", "message", "refusal", "prompt_tokens", "object", "model", "type", "text"]
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(FIELDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@UNHURRIED
@given(st.lists(JSON_VALUES, max_size=5))
def test_no_chunk_makes_it_raise(chunks: list[Any]) -> None:
    """Chunks of any shape are text, a fault or nothing."""
    text, decoder = read(*chunks)

    assert text.encode() is not None
    assert decoder.fault is None or decoder.is_done
