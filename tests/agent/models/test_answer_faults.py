"""Every way a model's server can fail, and the one error each becomes. None of them keeps a word of what was said."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from agent.errors import ModelBusy, ModelError, ModelFault, ModelRejected, ModelStreamBroken, ModelUnreachable
from agent.models.chat_completions import ChatCompletions
from agent.models.protocol import RoundEnd
from tests.agent.models.asking import QUESTION_WITH_SENTINEL, SENTINEL, adapter, ask, assert_says_nothing
from tests.fakes.model_exchange import Exchange
from tests.fakes.model_server import (
    Gate,
    ModelServer,
    Script,
    Step,
    chunk,
    cut,
    delta,
    finish,
    gate,
    raw,
    reset,
    stall,
    text,
    whole,
)

SOON = 0.1


def refusal(status: int, **more: object) -> Script:
    """An error response that quotes the request, as some providers do."""
    return (whole({"error": {"message": f"{status}: {SENTINEL}", "type": "x", **more}}, status=status),)


STATUS_TABLE = [
    (refusal(400), ModelRejected, ModelFault.REQUEST_INVALID, False),
    (refusal(400, code="context_length_exceeded"), ModelRejected, ModelFault.CONTEXT_TOO_LONG, False),
    (refusal(400, code="content_filter"), ModelRejected, ModelFault.CONTENT_REFUSED, False),
    (refusal(401), ModelRejected, ModelFault.UNAUTHORIZED, False),
    (refusal(402), ModelRejected, ModelFault.QUOTA_EXHAUSTED, False),
    (refusal(403), ModelRejected, ModelFault.FORBIDDEN, True),
    (refusal(404), ModelRejected, ModelFault.NOT_FOUND, True),
    (refusal(400, code="model_not_found"), ModelRejected, ModelFault.NOT_FOUND, True),
    (refusal(413), ModelRejected, ModelFault.CONTEXT_TOO_LONG, False),
    (refusal(422), ModelRejected, ModelFault.REQUEST_INVALID, False),
    (refusal(408), ModelUnreachable, ModelFault.SERVER_ERROR, True),
    (refusal(429), ModelBusy, ModelFault.BUSY, True),
    (refusal(429, code="insufficient_quota"), ModelBusy, ModelFault.QUOTA_EXHAUSTED, True),
    (refusal(500), ModelUnreachable, ModelFault.SERVER_ERROR, True),
    (refusal(503), ModelUnreachable, ModelFault.SERVER_ERROR, True),
    (refusal(529), ModelUnreachable, ModelFault.SERVER_ERROR, True),
    ((whole(f"<html>{SENTINEL}</html>".encode(), status=502, content_type="text/html"),),
     ModelUnreachable, ModelFault.SERVER_ERROR, True),
    ((whole(b"", status=500),), ModelUnreachable, ModelFault.SERVER_ERROR, True),
]  # fmt: skip


@pytest.mark.parametrize(("script", "kind", "code", "retryable"), STATUS_TABLE)
async def test_a_status_becomes_one_error(
    server: ModelServer,
    model: ChatCompletions,
    script: Script,
    kind: type[ModelError],
    code: ModelFault,
    retryable: bool,
) -> None:
    """The status decides, refined by the few provider codes we know; only some say that another model may help."""
    server.choose = lambda _: script

    heard = await ask(model, QUESTION_WITH_SENTINEL)

    assert type(heard.error) is kind
    assert (heard.error.code, heard.error.retryable) == (code, retryable)
    assert heard.error.status is not None
    assert_says_nothing(heard.error)


CHUNK_WITH_SENTINEL = chunk({"choices": [{"index": 0, "delta": {"content": SENTINEL}}]})
STREAM_TABLE: list[tuple[Script, ModelFault]] = [
    ((chunk({"error": {"message": SENTINEL, "code": "server_error"}}),), ModelFault.ERROR_IN_STREAM),
    ((chunk({"error": SENTINEL}),), ModelFault.ERROR_IN_STREAM),
    ((chunk({"error": {}}),), ModelFault.ERROR_IN_STREAM),
    ((chunk({"object": "error", "message": SENTINEL}),), ModelFault.ERROR_IN_STREAM),
    ((raw(f'event: error\ndata: {{"message": "{SENTINEL}"}}\n\n'.encode()),), ModelFault.ERROR_IN_STREAM),
    ((raw(f"event: error\ndata: {SENTINEL}\n\n".encode()),), ModelFault.ERROR_IN_STREAM),
    ((delta({}, finish_reason="error"),), ModelFault.ERROR_IN_STREAM),
    ((raw(f'data: {{"id": {SENTINEL}\n\n'.encode()),), ModelFault.MALFORMED),
    ((raw(f'data: {{"id": "{SENTINEL}'.encode()),), ModelFault.MALFORMED),
    ((chunk([SENTINEL]),), ModelFault.MALFORMED),
    ((chunk({"choices": SENTINEL}),), ModelFault.MALFORMED),
    ((chunk({"choices": [SENTINEL]}),), ModelFault.MALFORMED),
    ((chunk({"choices": [{"delta": SENTINEL}]}),), ModelFault.MALFORMED),
    ((delta({"content": {"text": SENTINEL}}),), ModelFault.MALFORMED),
    ((delta({"tool_calls": SENTINEL}),), ModelFault.MALFORMED),
    ((delta({"tool_calls": [{"index": 0, "function": {"arguments": SENTINEL}}]}), finish("stop")),
     ModelFault.MALFORMED),
    ((raw(b"data: " + b"x" * (17 * 1024 * 1024)),), ModelFault.TOO_LARGE),
]  # fmt: skip


@pytest.mark.parametrize(("script", "code"), STREAM_TABLE)
async def test_a_fault_inside_the_stream_breaks_it(
    server: ModelServer, model: ChatCompletions, script: Script, code: ModelFault
) -> None:
    """An error inside a 200 and anything unreadable is a broken stream; the text before it has been given."""
    server.play(text("Hel"), *script)

    heard = await ask(model, QUESTION_WITH_SENTINEL)

    assert heard.text == "Hel"
    assert heard.end is None
    assert type(heard.error) is ModelStreamBroken
    assert heard.error.code is code
    assert_says_nothing(heard.error)


async def test_text_in_the_same_read_as_an_error_is_not_lost(server: ModelServer, model: ChatCompletions) -> None:
    """What the model had said stays on the page, also when the error came in the same bytes."""
    server.play(raw(b'data: {"choices":[{"delta":{"content":"Hel"}}]}\n\ndata: {"error":{"code":503}}\n\n'))

    heard = await ask(model)

    assert heard.pieces == ["Hel"]
    assert heard.error is not None
    assert (heard.error.code, heard.error.status) == (ModelFault.ERROR_IN_STREAM, 503)


@pytest.mark.parametrize("break_off", [cut, reset])
async def test_a_cut_connection_is_a_broken_stream(
    server: ModelServer, model: ChatCompletions, break_off: Callable[[], Step]
) -> None:
    """A connection that closes or is reset in mid-answer never looks like an end."""
    heard_something = Gate()
    server.play(text(SENTINEL), gate(heard_something), break_off())

    heard = await ask(model, opens=heard_something)

    assert heard.text == SENTINEL
    assert heard.end is None
    assert type(heard.error) is ModelStreamBroken
    assert heard.error.code is ModelFault.CUT
    assert_says_nothing(heard.error)


@pytest.mark.parametrize("break_off", [cut, reset])
async def test_a_cut_before_the_status_is_no_connection(
    server: ModelServer, model: ChatCompletions, break_off: Callable[[], Step]
) -> None:
    """A server that takes the request and goes away gave nothing: another model may be asked."""

    async def go(exchange: Exchange) -> None:
        exchange.begun = True
        await break_off()(exchange)

    server.play(go)

    heard = await ask(model, QUESTION_WITH_SENTINEL)

    assert type(heard.error) is ModelUnreachable
    assert heard.error.code is ModelFault.CONNECTION_FAILED
    assert_says_nothing(heard.error)


@pytest.mark.parametrize(("break_off", "silence_seconds"), [(cut, 30.0), (reset, 30.0), (stall, SOON)])
async def test_after_the_finish_reason_nothing_can_break(
    server: ModelServer, break_off: Callable[[], Step], silence_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the model has named its reason the answer is whole: a cut or silence then ends the round in good order."""
    monkeypatch.setattr("agent.models.answer.AFTER_FINISH_SECONDS", silence_seconds)
    whole_answer = Gate()
    last = b'data: {"choices":[{"delta":{"content":"Hello"},"finish_reason":"stop"}]}\n\ndata: {"unfinished'
    server.play(raw(last), gate(whole_answer), break_off())

    async with adapter(server) as model:
        heard = await ask(model, opens=whole_answer)

    assert (heard.text, heard.error) == ("Hello", None)
    assert heard.end == RoundEnd("stop")


async def test_no_connection_is_said_at_once() -> None:
    """Nobody listens there: unreachable, and another model may be tried."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    model = ChatCompletions(f"http://127.0.0.1:{port}/v1", "key")

    heard = await ask(model, QUESTION_WITH_SENTINEL)
    await model.close()

    assert type(heard.error) is ModelUnreachable
    assert heard.error.code is ModelFault.CONNECTION_FAILED
    assert heard.error.retryable
    assert_says_nothing(heard.error)


async def test_a_page_instead_of_a_stream_is_named(server: ModelServer, model: ChatCompletions) -> None:
    """A base URL that leads to a web page answers 200 with HTML: no empty answer, but an error that says so."""
    server.play(whole(f"<html>{SENTINEL}</html>".encode(), content_type="text/html; charset=utf-8"))

    heard = await ask(model)

    assert heard.error is not None
    assert heard.error.code is ModelFault.NOT_A_STREAM
    assert_says_nothing(heard.error)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"error": {"message": SENTINEL}}, ModelFault.ERROR_IN_STREAM),
        (f'{{"choices": {SENTINEL}'.encode(), ModelFault.MALFORMED),
        ([SENTINEL], ModelFault.MALFORMED),
        (b" " * (17 * 1024 * 1024), ModelFault.TOO_LARGE),
    ],
)
async def test_a_whole_body_can_be_faulty_too(
    server: ModelServer, model: ChatCompletions, body: object, code: ModelFault
) -> None:
    """An error object or broken JSON in place of a completion is a fault like in a stream."""
    server.play(whole(body))

    heard = await ask(model)

    assert heard.error is not None
    assert heard.error.code is code
    assert_says_nothing(heard.error)


# --- what an error says ----------------------------------------------------------------------------------------------


def test_an_error_reads_as_a_sentence() -> None:
    """Its text is its class's sentence, the code and the status."""
    assert str(ModelBusy(ModelFault.BUSY, status=429)) == "The model has no room for this request now (busy, 429)."
    assert str(ModelStreamBroken(ModelFault.CUT)) == "The model's answer broke off (cut)."


def test_the_tables_know_every_fault() -> None:
    """A code that is added is tested: in one of the tables, or by a test of its own named here."""
    in_tables = {code for *_, code, _ in STATUS_TABLE} | {code for _, code in STREAM_TABLE}
    by_themselves = {
        ModelFault.CONNECTION_FAILED,
        ModelFault.NO_ANSWER,
        ModelFault.CUT,
        ModelFault.STALLED,
        ModelFault.NOT_A_STREAM,
    }

    assert in_tables | by_themselves == set(ModelFault)
