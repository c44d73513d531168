"""The rehearsal model as a server: OpenAI's wire protocol on loopback, so that everything before it is the real thing.

It streams as real servers do (a role chunk, words one by one, arguments in fragments, usage last) and breaks as they do
when asked to. The same request gets the same bytes.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from agent.models.rehearsal.connection import Connection, HttpRequest, HttpResponse
from agent.models.rehearsal.phrases import Ending
from agent.models.rehearsal.replies import Reply, reply_to

MODEL_NAME: Final = "rehearsal"
PACE_SECONDS: Final = 0.015
ARGUMENT_FRAGMENT_CHARS: Final = 12
CHARS_PER_TOKEN: Final = 4

_FINISH_REASONS: Final = {Ending.GOOD: "stop", Ending.TOO_LONG: "length", Ending.CUT_OFF: None}
_ERROR: Final = {
    "message": "The rehearsal model was asked to fail.",
    "type": "server_error",
    "param": None,
    "code": None,
}


class RehearsalServer:
    """Start it in the event loop that is to serve it; `pace_seconds` is the pause before each piece (0: none)."""

    def __init__(self, *, pace_seconds: float = PACE_SECONDS) -> None:
        self._pace_seconds = pace_seconds
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None

    def _connect(self) -> Connection:
        return Connection(self._answer, self._connections)

    async def start(self) -> str:
        """Listen on a free port of 127.0.0.1; returns the base URL, `/v1` included."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connect, "127.0.0.1", 0, backlog=4096)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def close(self) -> None:
        """Stop listening and break off every answer."""
        if self._server is not None:
            self._server.close()
            await asyncio.gather(*[connection.close() for connection in self._connections])
            await self._server.wait_closed()
            self._server = None

    async def _answer(self, request: HttpRequest, response: HttpResponse) -> None:
        if request.path.endswith("/models") and request.method == "GET":
            listed = {"id": MODEL_NAME, "object": "model", "created": 0, "owned_by": "remembrancer"}
            return response.send_json(200, {"object": "list", "data": [listed]})
        if not request.path.endswith("/chat/completions"):
            return response.send_error(404, "There is nothing here but chat completions and the list of models.")
        if request.method != "POST":
            return response.send_error(405, "Chat completions are asked for with POST.")
        asked = _read(request.body)
        if asked is None:
            return response.send_error(400, "The body has to be a JSON object with a list of messages.")
        reply = reply_to(asked["messages"], _tool_names(asked))
        if asked.get("stream"):
            await self._stream(asked, reply, response)
        else:
            await self._send_whole(asked, reply, response)
        return None

    async def _stream(self, asked: Mapping[str, Any], reply: Reply, response: HttpResponse) -> None:
        head = _head(asked, "chat.completion.chunk")
        response.begin_stream()
        async for delta in self._paced(_deltas(reply)):
            await response.send_event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        if reply.ending is Ending.STALL:
            await _for_ever()
        if reply.ending is Ending.FAIL:
            await response.send_event({"error": _ERROR})
        elif reply.ending is not Ending.CUT_OFF:
            await response.send_event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(reply)}]})
            if (asked.get("stream_options") or {}).get("include_usage"):
                await response.send_event({**head, "choices": [], "usage": _usage(asked, reply)})
            await response.send(b"data: [DONE]\n\n")
        response.end_stream()

    async def _send_whole(self, asked: Mapping[str, Any], reply: Reply, response: HttpResponse) -> None:
        async for _ in self._paced(_deltas(reply)):
            pass
        if reply.ending is Ending.STALL:
            await _for_ever()
        if reply.ending is Ending.FAIL:
            return response.send_json(200, {"error": _ERROR})
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
        if reply.calls:
            message["tool_calls"] = [_call(number, reply) for number in range(len(reply.calls))]
        choice = {"index": 0, "message": message, "finish_reason": _finish(reply)}
        whole = {**_head(asked, "chat.completion"), "choices": [choice], "usage": _usage(asked, reply)}
        return response.send_json(200, whole)

    async def _paced(self, deltas: Iterator[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        for delta in deltas:
            if self._pace_seconds:
                await asyncio.sleep(self._pace_seconds)
            yield delta


async def _for_ever() -> None:
    """Until the client goes: its connection then cancels the task that waits here."""
    await asyncio.get_running_loop().create_future()


def _read(body: bytes) -> dict[str, Any] | None:
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    messages = asked.get("messages") if isinstance(asked, dict) else None
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return None
    return dict(asked)


def _tool_names(asked: Mapping[str, Any]) -> frozenset[str]:
    tools = [tool.get("function") for tool in asked.get("tools") or () if isinstance(tool, dict)]
    return frozenset(str(function.get("name")) for function in tools if isinstance(function, dict))


def _head(asked: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-rehearsal", "object": kind, "created": 0, "model": asked.get("model") or MODEL_NAME}


def _deltas(reply: Reply) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": None if reply.calls else ""}
    for piece in _pieces(reply.text):
        yield {"content": piece}
    for number, call in enumerate(reply.calls):
        yield {"tool_calls": [{"index": number, **_call(number, reply, arguments="")}]}
        for start in range(0, len(call.arguments), ARGUMENT_FRAGMENT_CHARS):
            fragment = call.arguments[start : start + ARGUMENT_FRAGMENT_CHARS]
            yield {"tool_calls": [{"index": number, "function": {"arguments": fragment}}]}


def _pieces(text: str) -> Sequence[str]:
    """The text word by word, white space kept with the word before it."""
    return re.findall(r"\S+\s*|\s+", text)


def _call(number: int, reply: Reply, arguments: str | None = None) -> dict[str, Any]:
    call = reply.calls[number]
    function = {"name": call.name, "arguments": call.arguments if arguments is None else arguments}
    return {"id": f"call_rehearsal_{number}", "type": "function", "function": function}


def _finish(reply: Reply) -> str | None:
    return "tool_calls" if reply.calls else _FINISH_REASONS[reply.ending]


def _usage(asked: Mapping[str, Any], reply: Reply) -> dict[str, int]:
    """Counts as an estimate makes them: four characters a token."""
    read = sum(len(str(message.get("content") or "")) for message in asked["messages"]) // CHARS_PER_TOKEN
    written = sum(len(call.arguments) for call in reply.calls) // CHARS_PER_TOKEN + len(_pieces(reply.text))
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
