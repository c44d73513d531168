"""The rehearsal model on the wire: asked through the real adapter, and by a plain HTTP client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.errors import ModelFault
from agent.models.chat_completions import ChatCompletions
from agent.models.protocol import ModelRequest, TextPiece
from agent.models.rehearsal import MODEL_NAME, RehearsalServer
from tests.agent.models.asking import WAIT_SECONDS, Heard, ask

TOOL = {"type": "function", "function": {"name": "memory_update", "parameters": {"type": "object"}}}
RESULT = (
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "memory_update", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "a", "content": '{"status":"staged"}'},
)  # fmt: skip


@pytest.fixture
async def rehearsal(anyio_backend: object) -> AsyncIterator[str]:
    """The base URL of a server without pauses."""
    server = RehearsalServer(pace_seconds=0)
    yield await server.start()
    await server.close()


@pytest.fixture
async def rehearsed(rehearsal: str) -> AsyncIterator[ChatCompletions]:
    model = ChatCompletions(rehearsal, "", first_token_seconds=30, stall_seconds=0.1)
    yield model
    await model.close()


def asking(said: str, *more: dict[str, Any]) -> ModelRequest:
    return ModelRequest(MODEL_NAME, ({"role": "user", "content": said}, *more), (TOOL,))


async def test_an_answer_streams_in_order_with_counts(rehearsed: ChatCompletions) -> None:
    """Text, a good end, counts; and the same again for the same request."""
    first, second = await ask(rehearsed, asking("hello")), await ask(rehearsed, asking("hello"))

    assert first.error is None
    assert first.text == second.text
    assert first.end == second.end
    assert first.end is not None
    assert (first.end.finish_reason, first.end.model) == ("stop", MODEL_NAME)
    assert (first.end.input_tokens, first.end.output_tokens) == (1, len(first.text.split()))


async def test_a_tool_call_comes_in_fragments(rehearsal: str, rehearsed: ChatCompletions) -> None:
    """As real servers send it: and through the adapter it is whole."""
    heard = await ask(rehearsed, asking("remember that I like tea"))
    _, body = await post(rehearsal, {**said("remember that I like tea"), "tools": [TOOL], "stream": True})

    assert heard.end is not None
    assert heard.end.finish_reason == "tool_calls"
    [call] = heard.end.tool_calls
    assert json.loads(call.arguments)["operations"][0]["content"] == "I like tea"
    assert body.count(b'"arguments"') > 3


async def test_the_four_endings_are_what_they_say(rehearsed: ChatCompletions) -> None:
    """After a tool round, each with text before it: stalled, an error inside the 200, no finish reason, `length`."""
    heard = {
        ending: await ask(rehearsed, asking(f"remember that I like tea; {ending}", *RESULT))
        for ending in ("stall", "fail", "cut off", "too long")
    }

    assert [code(heard["stall"]), code(heard["fail"])] == [ModelFault.STALLED, ModelFault.ERROR_IN_STREAM]
    assert [reason(heard["cut off"]), reason(heard["too long"])] == [None, "length"]
    assert all("noted" in one.text for one in heard.values())


def code(heard: Heard) -> ModelFault:
    assert heard.error is not None
    return heard.error.code


def reason(heard: Heard) -> str | None:
    assert heard.end is not None
    return heard.end.finish_reason


async def test_a_stall_lasts_until_the_client_leaves(rehearsal: str) -> None:
    """It keeps no task and no connection once nobody listens."""
    model = ChatCompletions(rehearsal, "")
    async with asyncio.timeout(WAIT_SECONDS), model.open(asking("stall")) as answer:
        assert isinstance(await anext(answer), TextPiece)
        stalled = {task for task in asyncio.all_tasks() if "RehearsalServer" in repr(task)}

    await model.close()
    assert stalled
    await asyncio.wait(stalled, timeout=WAIT_SECONDS)
    assert all(task.cancelled() for task in stalled)


async def test_closing_the_server_ends_what_it_was_saying() -> None:
    """A stalled answer does not hold the shutdown up."""
    server = RehearsalServer(pace_seconds=0)
    model = ChatCompletions(await server.start(), "")
    async with model.open(asking("stall")) as answer:
        await anext(answer)
        await asyncio.wait_for(server.close(), WAIT_SECONDS)
        await server.close()
    await model.close()


async def test_the_pace_makes_one_piece_at_a_time() -> None:
    """With a pause between them the words arrive one by one."""
    server = RehearsalServer(pace_seconds=0.001)
    model = ChatCompletions(await server.start(), "")

    heard = await ask(model, asking("what do you remember"))
    await model.close()
    await server.close()

    assert len(heard.pieces) > 5


def said(text: str) -> dict[str, Any]:
    return {"model": "any", "messages": [{"role": "user", "content": text}]}


async def post(base_url: str, body: Any, *, path: str = "/chat/completions", method: str = "POST") -> tuple[int, bytes]:
    """One request over a plain socket: status and everything after the head."""
    host, port = base_url.split("/")[2].split(":")
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"{method} /any/v1{path}?x=1 HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)
    async with asyncio.timeout(WAIT_SECONDS):
        status = int((await reader.readuntil(b"\r\n")).split()[1])
        rest = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = next((line for line in rest.split(b"\r\n") if line.startswith(b"content-length:")), None)
        ends = reader.readuntil(b"0\r\n\r\n") if length is None else reader.readexactly(int(length.split(b":")[1]))
        answer = await ends
    writer.close()
    await writer.wait_closed()
    return status, answer


@pytest.mark.parametrize("ending", ["too long", "cut off", "fail"])
async def test_a_whole_completion_ends_the_same_ways(rehearsal: str, ending: str) -> None:
    """Without `stream` it answers in one JSON object, any base path."""
    status, body = await post(rehearsal, said(ending))
    answer = json.loads(body)

    assert status == 200
    if ending == "fail":
        assert set(answer) == {"error"}
    else:
        assert answer["choices"][0]["finish_reason"] == {"too long": "length", "cut off": None}[ending]
        assert answer["choices"][0]["message"]["content"]
        assert answer["usage"]["total_tokens"] > 0


async def test_a_whole_completion_can_call_a_tool(rehearsal: str) -> None:
    """The call is whole, and there is no text beside it."""
    _, body = await post(rehearsal, {**said("remember that I like tea"), "tools": [TOOL]})
    [choice] = json.loads(body)["choices"]

    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])["operations"]


async def test_usage_is_streamed_only_when_asked_for(rehearsal: str) -> None:
    """As the wire protocol says: a last chunk with empty choices, and only then."""
    _, without = await post(rehearsal, {**said("hello"), "stream": True})
    _, asked = await post(rehearsal, {**said("hello"), "stream": True, "stream_options": {"include_usage": True}})

    assert b'"usage"' not in without
    assert b'"choices":[],"usage":{"prompt_tokens":' in asked


async def test_it_lists_itself(rehearsal: str) -> None:
    """Clients that ask for the models find one."""
    status, body = await post(rehearsal, b"", path="/models", method="GET")

    assert (status, [model["id"] for model in json.loads(body)["data"]]) == (200, [MODEL_NAME])


@pytest.mark.parametrize(
    ("body", "path", "method", "expected"),
    [
        (b"{", "/chat/completions", "POST", 400),
        (b"[]", "/chat/completions", "POST", 400),
        (b'{"messages": ["hi"]}', "/chat/completions", "POST", 400),
        (b"{}", "/chat/completions", "GET", 405),
        (b"{}", "/embeddings", "POST", 404),
    ],
)
async def test_what_it_does_not_do_is_refused(
    rehearsal: str, body: bytes, path: str, method: str, expected: int
) -> None:
    """Wrong requests get an error in OpenAI's shape."""
    status, answer = await post(rehearsal, body, path=path, method=method)

    assert status == expected
    assert json.loads(answer)["error"]["message"]


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (b"NONSENSE\r\n\r\n", b"400"),
        (b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"400"),
        (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"400"),
        (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", b"413"),
        (b"POST /v1/chat/completions HTTP/1.1\r\nX: " + b"x" * 100_000, b"431"),
    ],
)
async def test_what_is_no_request_ends_the_connection(rehearsal: str, request_bytes: bytes, expected: bytes) -> None:
    """It is told why, then the connection is closed: nothing is guessed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(rehearsal.split(":")[2].split("/")[0]))
    writer.write(request_bytes)

    async with asyncio.timeout(WAIT_SECONDS):
        answer = await reader.read()
    writer.close()

    assert answer.split()[1] == expected
