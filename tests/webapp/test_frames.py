"""The grammar of what the browser is sent."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from webapp import frames
from webapp.views import AnswerState, AnswerView, QuestionView, ReceiptState, ReceiptView, TurnView


def messages(stream: bytes) -> list[tuple[str, str]]:
    """Event name and data of each message, read as the standard says."""
    read = []
    for block in stream.decode().removesuffix("\n\n").split("\n\n"):
        fields = [line.partition(": ") for line in block.split("\n")]
        name = next((value for field, _, value in fields if field == "event"), "")
        read.append((name, "\n".join(value for field, _, value in fields if field == "data")))
    return read


def turn(**more: Any) -> TurnView:
    answer = AnswerView(AnswerState.WRITING, "Answer, being written", step="Thinking")
    return TurnView("trn_a", "cht_a", **{"answer": answer, **more})


@given(st.text())
def test_text_of_any_kind_is_one_message(text: str) -> None:
    """No line break in the prose ends a message or begins a field."""
    html = Markup("<p>{}</p>").format(text)
    ((name, data),) = messages(frames.text("trn_a", [html], Markup("")))
    assert name == ""
    assert data.count("<hx-partial ") == 2
    assert data.endswith("</hx-partial>")


@pytest.mark.parametrize(
    "tag", ["<hx-partial hx-target='#panel'>", "</hx-partial>", "<HX-Partial >", '<a title="<hx-x ">']
)
def test_content_cannot_open_or_close_a_partial(tag: str) -> None:
    """htmx finds those tags by searching the raw text, so none may be left in any content."""
    ((_, data),) = messages(frames.text("trn_a", (), Markup(tag)))
    assert data.lower().count("<hx-") == 1
    assert data.lower().count("</hx-") == 1
    alone = frames.turn_now(turn(answer=AnswerView(AnswerState.DONE, "Answer", prose=Markup(tag))))
    assert "<hx-" not in alone.lower()
    assert "</hx-" not in alone.lower()


def test_a_new_chat_is_told_with_its_address_in_a_message_for_script() -> None:
    """First what is to be seen, then the named message."""
    said = QuestionView("<b>Hello</b>", datetime(2026, 11, 30, 14, 2, tzinfo=UTC))
    (unnamed, seen), (named, told) = messages(frames.started(turn(question=said), title="Hello"))
    assert (unnamed, named) == ("", "turn.started")
    assert "&lt;b&gt;Hello&lt;/b&gt;" in seen
    assert json.loads(told) == {"turnId": "trn_a", "conversationId": "cht_a", "title": "Hello"}


def test_the_end_replaces_the_answer_by_what_a_reload_would_show() -> None:
    """The same partial; the answer it takes the place of goes; the sentence is spoken; script is told last."""
    done = AnswerView(AnswerState.DONE, "Answer", prose=Markup("<p>Whole.</p>"), source="Whole.")
    sent = frames.ended(turn(answer=done), "Ended & told.", outcome="completed", memory="none", replaces=["trn_old"])
    (_, seen), (named, told) = messages(sent)
    assert 'hx-target="#turn-trn_a" hx-swap="outerMorph"' in seen
    assert 'hx-target="#turn-trn_old" hx-swap="delete"' in seen
    assert "Ended &amp; told." in seen
    assert "data-running" not in seen
    assert (named, json.loads(told)["outcome"]) == ("turn.ended", "completed")


def test_partials_have_no_white_space_round_them() -> None:
    """A morph would add it to the page as text, each second."""
    view = ReceiptView("trn_a", ReceiptState.REFUSED, "Not saved", note="Why.")
    assert '"><div class="receipt' in frames.reply(receipts=[view])
    assert frames.turn_now(turn()).startswith("<article")
    assert frames.turn_now(turn()).endswith("</article>")
