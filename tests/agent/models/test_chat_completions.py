"""The adapter against a scripted server: what it asks, and what it makes of answers that end well."""

from __future__ import annotations

import asyncio
import gzip
import json
from types import MappingProxyType
from typing import Any

import pytest

from agent.errors import ModelFault, ModelRejected
from agent.models.chat_completions import ChatCompletions, is_loopback
from agent.models.protocol import ModelRequest, RoundEnd, TextPiece, ToolCall
from tests.agent.models.asking import QUESTION, adapter, ask
from tests.fakes.model_server import (
    Gate,
    ModelServer,
    RecordedRequest,
    Script,
    begin,
    chunk,
    delta,
    error_status,
    finish,
    gate,
    no_done,
    raw,
    stall,
    text,
    tool,
    usage,
    whole,
)

TOOL = {"type": "function", "function": {"name": "memory_update", "parameters": {"type": "object"}}}


async def test_an_answer_comes_as_text_and_one_end(server: ModelServer, model: ChatCompletions) -> None:
    """Text, finish reason, counts and the model's own name come through."""
    server.play(text("Hel", "lo"), finish("stop"), usage(12, 2))

    heard = await ask(model)

    assert heard.text == "Hello"
    assert heard.end == RoundEnd("stop", (), input_tokens=12, output_tokens=2, model="model-x")


async def test_the_request_asks_for_a_stream_with_usage(server: ModelServer, model: ChatCompletions) -> None:
    """The body holds the model, the messages and the tools as they were given, and asks for usage counts."""
    server.play(finish("stop"))
    messages = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Grüße — 你好"})

    await ask(model, ModelRequest("m", messages, (TOOL,)))

    [request] = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer key-of-the-test"
    assert request.body == {
        "model": "m",
        "messages": list(messages),
        "tools": [TOOL],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_no_tools_are_no_field(server: ModelServer, model: ChatCompletions) -> None:
    """An empty list of tools is refused by some servers: the field is left out."""
    server.play(finish("stop"))

    await ask(model)

    assert "tools" not in server.requests[0].body


async def test_read_only_mappings_are_sent(server: ModelServer, model: ChatCompletions) -> None:
    """A request made of read-only mappings is a request like any other."""
    server.play(finish("stop"))
    message: Any = MappingProxyType({"role": "user", "content": "hi"})

    heard = await ask(model, ModelRequest("m", (message,)))

    assert heard.error is None
    assert server.requests[0].messages == [dict(message)]


async def test_one_piece_for_each_read_that_carried_text(server: ModelServer, model: ChatCompletions) -> None:
    """Deltas that arrive together are one piece; a read without text is none."""
    first_read = Gate()
    together = [{"choices": [{"delta": {"content": letter}}]} for letter in "bcd"]
    server.play(
        delta({"role": "assistant", "content": ""}),
        text("a"),
        gate(first_read),
        raw(b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in together)),
        finish("stop"),
    )

    heard = await ask(model, opens=first_read)

    assert heard.pieces == ["a", "bcd"]


async def test_a_tool_round_gives_its_calls_at_the_end(server: ModelServer, model: ChatCompletions) -> None:
    """Two calls streamed in fragments come out whole, in order, with text beside them."""
    operations = {"operations": [{"target": "user", "action": "add", "content": "Likes “tea”"}]}
    server.play(
        text("One moment."),
        tool("memory_update", operations, id="a"),
        tool("session_search", {"query": "tea"}, id="b", index=1),
        finish("tool_calls"),
    )

    heard = await ask(model)

    assert heard.text == "One moment."
    assert heard.end is not None
    assert heard.end.finish_reason == "tool_calls"
    update, search = heard.end.tool_calls
    assert json.loads(update.arguments) == operations
    assert search == ToolCall("b", "session_search", '{"query":"tea"}')


async def test_a_server_without_done_ends_well(server: ModelServer, model: ChatCompletions) -> None:
    """A response that ends in good order after its finish reason needs no `[DONE]`."""
    server.play(text("Hello"), finish("stop"), no_done())

    heard = await ask(model)

    assert (heard.text, heard.error) == ("Hello", None)
    assert heard.end == RoundEnd("stop", model="model-x")


@pytest.mark.parametrize("ending", [(), (no_done(),)], ids=["done", "no done"])
async def test_an_end_without_a_finish_reason_is_told_as_it_is(server: ModelServer, ending: Script) -> None:
    """The adapter does not judge: no finish reason is None, and the turn decides that this is no good end."""
    server.play(text("Hel"), *ending)

    async with adapter(server) as model:
        heard = await ask(model)

    assert (heard.text, heard.error) == ("Hel", None)
    assert heard.end is not None
    assert heard.end.finish_reason is None


@pytest.mark.parametrize("reason", ["stop", "length", "content_filter", "tool_calls"])
async def test_the_finish_reason_comes_through(server: ModelServer, model: ChatCompletions, reason: str) -> None:
    """Every reason reaches the turn as the server gave it."""
    server.play(text("x"), finish(reason))

    heard = await ask(model)

    assert heard.end is not None
    assert heard.end.finish_reason == reason


async def test_a_whole_completion_is_an_answer_too(server: ModelServer, model: ChatCompletions) -> None:
    """A server that ignores `stream` and answers in JSON is understood: text, calls, reason and counts."""
    function = {"name": "memory_update", "arguments": '{"a":1}'}
    message = {"role": "assistant", "content": "Hello", "tool_calls": [{"id": "a", "function": function}]}
    counts = {"prompt_tokens": 3, "completion_tokens": 4}
    server.play(whole({"model": "m", "choices": [{"message": message, "finish_reason": "stop"}], "usage": counts}))

    heard = await ask(model)

    assert heard.pieces == ["Hello"]
    assert heard.end == RoundEnd("stop", (ToolCall("a", "memory_update", '{"a":1}'),), 3, 4, "m")


async def test_a_compressed_stream_is_read(server: ModelServer, model: ChatCompletions) -> None:
    """A proxy that compresses although we ask for plain bytes is understood."""
    lines = b'data: {"choices":[{"delta":{"content":"Hello"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    server.play(begin(content_encoding="gzip"), raw(gzip.compress(lines)), no_done())

    heard = await ask(model)

    assert (heard.text, heard.error) == ("Hello", None)


async def test_a_line_of_two_megabytes_is_read(server: ModelServer, model: ChatCompletions) -> None:
    """One delta of 2 MB arrives whole, however many reads it takes."""
    long = "ü" * (1024 * 1024)
    server.play(text(long), finish("stop"))

    heard = await ask(model)

    assert heard.text == long


async def test_a_connection_is_used_again_after_a_whole_answer(server: ModelServer, model: ChatCompletions) -> None:
    """Reading to `[DONE]` gives the connection back: the next round needs no new handshake."""
    for _ in range(3):
        server.play(text("Hello"), finish("stop"))
        await ask(model)

    assert len(server.clients) == 1


async def test_the_end_of_the_body_is_waited_for(
    server: ModelServer, model: ChatCompletions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When only the body's end is missing after `[DONE]`, a moment's patience saves the connection."""
    monkeypatch.setattr("agent.models.answer.DRAIN_SECONDS", 10.0)
    has_ended = Gate()
    server.play(text("Hello"), finish("stop"), raw(b"data: [DONE]\n\n"), gate(has_ended), no_done())
    server.play(text("Hello"), finish("stop"))

    async with model.open(QUESTION) as answer:
        async for piece in answer:
            if isinstance(piece, RoundEnd):
                has_ended.open()
    await ask(model)

    assert len(server.clients) == 1


async def test_a_body_that_does_not_end_is_left(server: ModelServer, model: ChatCompletions) -> None:
    """A server that holds the connection after `[DONE]` delays nothing: the answer is whole, the connection goes."""
    server.play(text("Hello"), finish("stop"), raw(b"data: [DONE]\n\n"), stall())

    heard = await ask(model)
    await server.reached(aborted=1)

    assert (heard.text, heard.error) == ("Hello", None)


def refuses_usage(request: RecordedRequest) -> Script:
    if "stream_options" in request.body:
        return (error_status(400),)
    return (text("Hello"), finish("stop"))


async def test_a_server_that_refuses_usage_is_asked_without(server: ModelServer, model: ChatCompletions) -> None:
    """It is asked once more without the option, and from then on never with it."""
    server.choose = refuses_usage

    answers = [await ask(model), await ask(model)]

    assert [heard.text for heard in answers] == ["Hello", "Hello"]
    assert ["stream_options" in request.body for request in server.requests] == [True, False, False]


async def test_a_refusal_with_other_reasons_is_not_learned_from(server: ModelServer, model: ChatCompletions) -> None:
    """Refused both ways, the request itself is at fault: that is reported, and usage is asked for again next time."""
    server.play(error_status(400))
    server.play(error_status(400))
    server.play(text("Hello"), finish("stop"), usage(1, 1))

    refused, answered = await ask(model), await ask(model)

    assert isinstance(refused.error, ModelRejected)
    assert answered.end is not None
    assert answered.end.input_tokens == 1
    assert ["stream_options" in request.body for request in server.requests] == [True, False, True]


async def test_once_usage_has_worked_a_refusal_is_final(server: ModelServer, model: ChatCompletions) -> None:
    """A server known to take the option is never asked twice for a 400."""
    server.play(text("Hello"), finish("stop"))
    server.play(error_status(400))

    await ask(model)
    heard = await ask(model)

    assert isinstance(heard.error, ModelRejected)
    assert server.counters.requests == 2


async def test_more_than_a_hundred_answers_are_open_at_once(server: ModelServer, model: ChatCompletions) -> None:
    """The transport's own limit of 100 connections does not hold: 150 answers stream at the same time."""
    all_open = Gate()
    server.choose = lambda request: (text(request.last_user_text), gate(all_open), finish("stop"))
    requests = [ModelRequest("m", ({"role": "user", "content": f"question {number}"},)) for number in range(150)]

    answers = asyncio.gather(*[ask(model, request) for request in requests])
    await server.reached(open=150)
    all_open.open()

    assert [heard.text for heard in await answers] == [f"question {number}" for number in range(150)]


async def test_leaving_early_gives_no_more_pieces(server: ModelServer, model: ChatCompletions) -> None:
    """After the round's end the iterator is over, and stays so."""
    server.play(text("Hello"), finish("stop"))

    async with model.open(QUESTION) as answer:
        pieces = [piece async for piece in answer]
        again = [piece async for piece in answer]

    assert [type(piece) for piece in pieces] == [TextPiece, RoundEnd]
    assert again == []


async def test_chunks_without_choices_are_passed_over(server: ModelServer, model: ChatCompletions) -> None:
    """Azure's filter results, pings and unknown objects hold no text: nothing is lost by ignoring them."""
    server.play(
        chunk({"choices": [], "prompt_filter_results": [{"index": 0}]}),
        chunk({"type": "ping"}),
        chunk({"weird": 1, "error": None}),
        text("Hello"),
        finish("stop"),
    )

    heard = await ask(model)

    assert (heard.text, heard.error) == ("Hello", None)


async def test_a_proxy_is_not_asked_for_this_machine(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rehearsal model and local servers are reached directly, whatever proxy the environment names."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    server.play(text("Hello"), finish("stop"))

    async with adapter(server) as model:
        heard = await ask(model)

    assert (heard.text, heard.error) == ("Hello", None)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://[::1]:11434/v1", True),
        ("http://localhost:11434/v1", True),
        ("https://api.openai.com/v1", False),
        ("http://10.0.0.7/v1", False),
    ],
)
def test_only_this_machine_is_loopback(url: str, expected: bool) -> None:
    """Addresses of the local network and of the world keep the environment's proxy."""
    assert is_loopback(url) is expected


async def test_a_text_that_cannot_be_sent_is_a_refusal(model: ChatCompletions) -> None:
    """A lone surrogate has no UTF-8 form: the request is refused here, without quoting it."""
    heard = await ask(model, ModelRequest("m", ({"role": "user", "content": "\ud800"},)))

    assert isinstance(heard.error, ModelRejected)
    assert heard.error.code is ModelFault.REQUEST_INVALID
