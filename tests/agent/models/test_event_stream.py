"""The framing of event streams: whatever servers and networks do to the bytes, the same values come out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.errors import ModelFault
from agent.models.event_stream import EventStream
from tests.agent.models.asking import UNHURRIED

VALUES: list[Any] = [{"text": "Grüße 👩‍👩‍👧 你好"}, {"n": [1, 2, {"deep": None}]}, {"text": 'line\nbreak\r\ttab \\ "'}]


def framed(values: list[Any], line_end: bytes = b"\n", prefix: bytes = b"data: ") -> bytes:
    lines = [prefix + json.dumps(value, ensure_ascii=False).encode() + line_end * 2 for value in values]
    return b"".join(lines) + b"data: [DONE]" + line_end * 2


def read(*reads: bytes) -> tuple[list[Any], EventStream]:
    stream = EventStream()
    values = [value for data in reads for value in stream.feed(data)]
    return values + stream.end(), stream


def split(data: bytes, places: list[int]) -> list[bytes]:
    """The bytes cut at these places (taken modulo their length)."""
    cuts = sorted({place % (len(data) + 1) for place in places})
    return [data[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@UNHURRIED
@given(
    line_end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    prefix=st.sampled_from([b"data: ", b"data:", b": comment\n\ndata: ", b"id: 7\nretry: 1\ndata: "]),
    places=st.lists(st.integers(0, 1000), max_size=20),
)
@example(line_end=b"\r\n", prefix=b"data: ", places=list(range(400)))
def test_no_split_changes_what_is_read(line_end: bytes, prefix: bytes, places: list[int]) -> None:
    """Cut anywhere, also inside a character or between CR and LF, with any framing: the values are the same."""
    data = framed(VALUES, line_end, prefix.replace(b"\n", line_end))

    values, stream = read(*split(data, places))

    assert values == VALUES
    assert stream.done
    assert stream.fault is None


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_no_split_tears_an_event_of_several_lines(line_end: bytes) -> None:
    """Cut at each place in turn, CR from LF too: no half of a line end becomes a blank line."""
    data = b'event: error\ndata: {"message":\ndata: "x"}\n\ndata: {"a":1}\n\n'.replace(b"\n", line_end)

    for place in range(len(data)):
        assert read(data[:place], data[place:])[0] == [{"error": {"message": "x"}}, {"a": 1}]


@pytest.mark.parametrize("done", [b"data: [DONE]\n\n", b"data:[DONE]\n\n", b"data:  [DONE]  \r\n\r\n", b"data: [DONE]"])
def test_done_is_known_in_every_spelling(done: bytes) -> None:
    """With or without a space, a blank line or any line end after it."""
    values, stream = read(b'data: {"a":1}\n\n', done)

    assert values == [{"a": 1}]
    assert stream.done


def test_nothing_is_read_after_done() -> None:
    """Whatever a server still sends does not belong to the answer."""
    values, stream = read(b'data: [DONE]\n\ndata: {"late":1}\n\ndata: {broken\n\n')

    assert values == []
    assert stream.fault is None


def test_lines_of_one_event_are_joined() -> None:
    """A value spread over several data lines is one value, as the standard says."""
    values, stream = read(b'data: {"a":\ndata: [1,\ndata:  2]}\n\n')

    assert values == [{"a": [1, 2]}]
    assert stream.fault is None


def test_a_blank_line_is_not_needed_between_values() -> None:
    """Servers that end each value with a single line break are read as they mean it."""
    values, _ = read(b'data: {"a":1}\ndata: {"b":2}\n')

    assert values == [{"a": 1}, {"b": 2}]


def test_the_last_line_counts_without_its_end() -> None:
    """A body that ends without a line break has still said its last value."""
    values, stream = read(b'data: {"a":1}')

    assert values == [{"a": 1}]
    assert stream.fault is None


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    """It may stand at the very start, and only there."""
    assert read(b"\xef\xbb\xbf" + framed(VALUES))[0] == VALUES


def test_an_error_event_marks_its_data() -> None:
    """`event: error` makes the data an error, whatever its shape; the event's end ends that."""
    values, _ = read(b'event: error\ndata: {"message":"x"}\n\nevent: chunk\ndata: {"a":1}\n\n')

    assert values == [{"error": {"message": "x"}}, {"a": 1}]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'data: {"a": oo\n\n', ModelFault.MALFORMED),
        (b'data: {"a": ', ModelFault.MALFORMED),
        (b"data: not JSON at all\n\n", ModelFault.MALFORMED),
        (b"event: error\ndata: overloaded\n\n", ModelFault.ERROR_IN_STREAM),
    ],
)
def test_an_event_that_is_no_json_is_a_fault(data: bytes, code: ModelFault) -> None:
    """What came before it was read; what follows is not, for nobody knows what is missing."""
    values, stream = read(b'data: {"before":1}\n\n', data, b'\n\ndata: {"after":1}\n\n')

    assert values == [{"before": 1}]
    assert stream.fault is not None
    assert stream.fault.code is code


@pytest.mark.parametrize("line_end", [b"", b"\ndata: "])
def test_an_event_that_never_ends_is_given_up(line_end: bytes) -> None:
    """Over 16 MiB without becoming a value, in one line or in many: the memory of the process is not the server's."""
    stream = EventStream()
    stream.feed(b"data: [")

    for _ in range(20):
        stream.feed(b'"' + b"x" * 1024 * 1024 + b'",' + line_end)

    assert stream.fault is not None
    assert stream.fault.code is ModelFault.TOO_LARGE


@pytest.mark.parametrize(
    ("data", "heard"),
    [
        (b": ping\n\n", False),
        (b"\n", False),
        (b": half a comm", False),
        (b'data: {"a":1}\n\n', True),
        (b'data: {"half', True),
        (b': ping\n\ndata: {"a":1}\n\n: ping\n\n', True),
        (b"data: [DONE]\n\n", True),
    ],
)
def test_comments_are_not_heard(data: bytes, heard: bool) -> None:
    """A stream that sends comments only is silent; any part of a value is a sign of life."""
    stream = EventStream()
    stream.feed(data)

    assert stream.heard is heard


@UNHURRIED
@given(st.lists(st.binary() | st.sampled_from([b"data: ", b"\n", b"\r", b"event: error", b"{", b"[DONE]", b'"'])))
def test_no_bytes_make_it_raise(reads: list[bytes]) -> None:
    """Any bytes in any order are values, a fault or nothing; never an exception of another kind."""
    read(*reads)
