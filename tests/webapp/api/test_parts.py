"""Paths, bodies and windows by themselves: what is taken apart, what is refused, and that nothing is repeated."""

import traceback
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.api.body import judge, parse
from webapp.api.inputs import CreateAgent, SendMessage
from webapp.api.outputs import Evaluation
from webapp.api.paging import Window, page_of, read_window
from webapp.api.path import decoded, match, sent_segments
from webapp.errors import BodyMalformed, RequestInvalid

TEMPLATE = ("v1", "users", "{subjectId}", "memory")
SENTINEL = "zebra-quince-4711"


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_any_text_comes_back_out_of_a_path(subject: str) -> None:
    """Encoded as one segment, it is one segment, letter by letter."""
    encoded = "".join(f"%{byte:02X}" for byte in subject.encode())
    segments = sent_segments({"raw_path": f"/v1/users/{encoded}/memory?limit=1".encode(), "path": ""})
    values = match(TEMPLATE, segments)
    assert values is not None
    assert decoded(values["subjectId"]) == subject


@pytest.mark.parametrize("path", ["/v1/users/a/b/memory", "/v1/users/memory", "/v2/users/a/memory", "/v1/users/a/"])
def test_another_path_does_not_match(path: str) -> None:
    """A slash that is not encoded ends a segment."""
    assert match(TEMPLATE, sent_segments({"raw_path": path.encode(), "path": path})) is None


def test_without_the_path_as_sent_the_decoded_one_must_do() -> None:
    """Servers may leave it out."""
    assert sent_segments({"path": "/v1/a b"}) == (b"v1", b"a%20b")


@pytest.mark.parametrize("segment", [b"%", b"%2", b"%zz", b"%FF", b"%ED%A0%80", b"\xff"])
def test_what_is_no_text_is_none(segment: bytes) -> None:
    """Broken escapes and bytes that are no UTF-8."""
    assert decoded(segment) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"a": NaN}',
        b'{"a": 1, "a": 2}',
        b"\xff\xfe{}",
        b"\xef\xbb\xbf{}",
        "{}".encode("utf-16"),
        b"[" * 100_000,
        b'{"a": ' + b"1" * 10_000 + b"}",
        f'{{"{SENTINEL}'.encode(),
    ],
    ids=range(10),
)
def test_what_is_not_json_is_malformed(body: bytes) -> None:
    """No constant that JSON lacks, no key twice, UTF-8 only, no depth and no number without end."""
    with pytest.raises(BodyMalformed) as refused:
        parse(body)
    assert SENTINEL not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize(
    "value",
    [
        {"name": {SENTINEL: SENTINEL}},
        {"name": SENTINEL * 20},
        {"name": "x", "tools": {"type": SENTINEL, "configs": [{"name": SENTINEL, "enabled": SENTINEL}]}},
        {"name": "x", "instructions": f"{SENTINEL}\0"},
        [SENTINEL],
        SENTINEL,
    ],
)
def test_a_refusal_never_repeats_a_value(value: Any) -> None:
    """Neither in its problems nor in its trace."""
    with pytest.raises(RequestInvalid) as refused:
        judge(value, CreateAgent)
    assert refused.value.problems
    assert SENTINEL not in str(refused.value.problems)
    assert SENTINEL not in "".join(traceback.format_exception(refused.value))


def test_there_are_never_very_many_problems() -> None:
    """However many keys somebody makes up."""
    with pytest.raises(RequestInvalid) as refused:
        judge({f"key{number}": 1 for number in range(5_000)}, SendMessage)
    assert len(refused.value.problems) <= 20


@given(st.text(max_size=60))
def test_a_made_up_cursor_is_refused(cursor: str) -> None:
    """Nothing of it reaches the database, and nothing else than a refusal is raised."""
    for reading in (Window.after, Window.after_number, Window.after_moment):
        with pytest.raises(RequestInvalid) as refused:
            reading(read_window({"cursor": cursor}), "things")
        assert [problem.path for problem in refused.value.problems] == ["cursor"]


def test_a_cursor_leads_to_what_comes_after() -> None:
    """One more row than asked for shows that there is more; the cursor names the last one shown."""
    rows = list("abcd")
    page = page_of(
        "things", Window(limit=3), rows, lambda row: Evaluation(text=row, finish_reason="stop", model=""), str
    )
    assert [each.text for each in page.data] == ["a", "b", "c"]
    assert Window(cursor=page.next_cursor).after("things") == "c"
    with pytest.raises(RequestInvalid):
        Window(cursor=page.next_cursor).after("others")
    assert page_of("things", Window(limit=4), rows, str, str).next_cursor is None
