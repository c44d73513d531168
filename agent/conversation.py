"""The talk with the model inside one turn: rounds of text and tools until it ends well, or does not.

Yields what happens as it happens. Leaves by returning only at a good end (DESIGN R2): the last round ended with
``stop`` and said something. Every other end raises. Tools are run here; they stage and never write.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any

import orjson

from agent.errors import EndedBadly, ModelBusy, ModelError
from agent.events import MemoryStaged, TextDelta, ToolStarted
from agent.models.arguments import tool_arguments
from agent.models.protocol import ChatModel, ModelRequest, RoundEnd, TextPiece, ToolCall
from agent.models.silence import SilenceTimeout, SilenceWatch
from agent.outcome import Reason
from agent.prompt import ASK_FOR_REPLY
from agent.reply import Reply
from agent.tools import memory_update

#: The longest a turn waits for a busy model before it says when to come back.
BUSY_WAIT_SECONDS = 30
#: How a call to something that was not offered is recorded. What the model called it is the model's text, and not kept.
UNKNOWN_TOOL = "unknown_tool"
NO_SUCH_TOOL = '{"status":"refused","code":"unknown_tool","advice":"There is no such tool. Answer without it."}'

#: Reasons after which a round may not be whole: its calls are not run, their arguments may be half of what was meant.
_CUT = frozenset({None, "length", "content_filter"})

Said = TextDelta | ToolStarted | MemoryStaged


def _no_pause() -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one turn. Seconds and rounds.

    ``pause_seconds`` is asked after every text but a round's first. For so long nothing more is read, and what comes
    meanwhile is one text: waking up for each word costs more than all that is done with it.
    """

    turn_seconds: float = 600
    tool_rounds: int = 8
    pause_seconds: Callable[[], float] = _no_pause


@dataclass(frozen=True, slots=True)
class RoundRequest:
    """A request-local copy of the agent: whose prompt is in it, and where its words and changes are gathered."""

    client: ChatModel
    models: tuple[str, ...]
    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...]
    reply: Reply


async def converse(request: RoundRequest, limits: Limits) -> AsyncGenerator[Said, None]:
    """Talk until the model is done.

    Raises ``EndedBadly`` (length, filter, no finish reason, nothing said, too many rounds), ``ModelError``, and
    ``TimeoutError`` when the turn takes longer than ``limits.turn_seconds``.
    """
    reply, messages = request.reply, list(request.messages)
    deadline = asyncio.get_running_loop().time() + limits.turn_seconds
    rounds_left, may_ask_again = limits.tool_rounds, True
    while True:
        reply.begin_round()
        async with aclosing(_ask(request, messages, deadline, limits.pause_seconds)) as pieces:
            async for piece in pieces:
                if isinstance(piece, TextPiece):
                    yield TextDelta(reply.add(piece.text))
        end = reply.last_round
        if end.tool_calls and end.finish_reason not in _CUT:
            if rounds_left == 0:
                raise EndedBadly(Reason.STEP_CAP)
            rounds_left -= 1
            async with aclosing(_run_tools(request, end.tool_calls, messages)) as steps:
                async for step in steps:
                    yield step
        elif end.finish_reason == "stop" and not reply.round_text and reply.tool_rounds and may_ask_again:
            may_ask_again = False
            messages.append({"role": "user", "content": ASK_FOR_REPLY})
        else:
            _judge(end, reply)
            return


def _judge(end: RoundEnd, reply: Reply) -> None:
    """Return for a good end, raise for any other."""
    if end.finish_reason == "length":
        raise EndedBadly(Reason.TOO_LONG)
    if end.finish_reason == "content_filter":
        raise EndedBadly(Reason.FILTERED)
    if end.finish_reason != "stop":
        raise EndedBadly(Reason.CUT_OFF)
    if not reply.round_text:
        raise EndedBadly(Reason.EMPTY)


async def _ask(
    request: RoundRequest, messages: list[Mapping[str, Any]], deadline: float, pause_seconds: Callable[[], float]
) -> AsyncGenerator[TextPiece, None]:
    """One round, from the first model that answers. Another is tried only while nothing was said or staged (R9)."""
    reply, waited, is_flowing = request.reply, False, False
    while True:
        reply.model = request.models[reply.model_index]
        try:
            async with AsyncExitStack() as opened:
                async with asyncio.timeout_at(deadline):
                    question = ModelRequest(reply.model, tuple(messages), request.tools)
                    answer = await opened.enter_async_context(request.client.open(question))
                watch = SilenceWatch(deadline)
                opened.callback(watch.stop)
                while (piece := await _next(answer, watch)) is not None:
                    if isinstance(piece, RoundEnd):
                        reply.end_round(piece)
                        return
                    yield piece
                    if is_flowing and (seconds := pause_seconds()) > 0:
                        await asyncio.sleep(seconds)
                    is_flowing = True
                reply.end_round(RoundEnd(None))
                return
        except ModelError as failure:
            if reply.has_begun or not failure.retryable:
                raise
            if reply.model_index + 1 < len(request.models):
                reply.model_index += 1
                continue
            patience = _patience(failure)
            if waited or patience is None:
                raise
        waited = True
        async with asyncio.timeout_at(deadline):
            await wait_for_room(patience)


async def _next(answer: AsyncIterator[TextPiece | RoundEnd], watch: SilenceWatch) -> TextPiece | RoundEnd | None:
    """The next piece, but not later than the turn's deadline (``TimeoutError``); None when there is no more."""
    try:
        return await watch.wait(anext(answer, None))
    except SilenceTimeout:
        raise TimeoutError from None


async def wait_for_room(seconds: float) -> None:
    """Until a busy model takes requests again, as it has said."""
    await asyncio.sleep(seconds)


def _patience(failure: ModelError) -> float | None:
    """Seconds to wait for a model that is busy and said for how long; None when waiting is not worth it."""
    seconds = failure.retry_after_seconds if isinstance(failure, ModelBusy) else None
    return seconds if seconds is not None and seconds <= BUSY_WAIT_SECONDS else None


async def _run_tools(
    request: RoundRequest, calls: tuple[ToolCall, ...], messages: list[Mapping[str, Any]]
) -> AsyncGenerator[ToolStarted | MemoryStaged, None]:
    """Run a round's calls in order and give the model their results. Staged changes are told once, at the end."""
    reply = request.reply
    staged_before = reply.operation_count
    arguments = [tool_arguments(call) for call in calls]
    messages.append(_assistant(reply.round_text, calls, arguments))
    offered = {tool["function"]["name"] for tool in request.tools}
    for call, given in zip(calls, arguments, strict=True):
        name = call.name if call.name in offered else UNKNOWN_TOOL
        yield ToolStarted(name)
        await asyncio.sleep(0)  # judging a batch takes its time: the other turns have theirs in between
        messages.append({"role": "tool", "tool_call_id": call.id, "content": _run_tool(reply, name, given)})
    if reply.ledger is not None and reply.operation_count > staged_before:
        yield MemoryStaged(reply.operation_count, reply.ledger.targets, reply.ledger.changes)


def _run_tool(reply: Reply, name: str, arguments: object) -> str:
    """Run one call. What is kept of it are its name, its code and how many operations it brought."""
    operations_before = reply.operation_count
    if name == memory_update.NAME:
        result, code = reply.memory.call(arguments)
    else:
        result, code = NO_SUCH_TOOL, UNKNOWN_TOOL
    operations = reply.operation_count - operations_before
    reply.tool_rounds.append({"tool": name, "code": code, "operations": operations})
    return result


def _assistant(said: str, calls: tuple[ToolCall, ...], arguments: list[object]) -> dict[str, Any]:
    """The model's own round, as strict servers take it back: arguments are the JSON of an object, whatever was sent."""
    functions = [
        {"name": call.name, "arguments": _as_object(given)} for call, given in zip(calls, arguments, strict=True)
    ]
    return {
        "role": "assistant",
        "content": said or None,
        "tool_calls": [
            {"id": call.id, "type": "function", "function": function}
            for call, function in zip(calls, functions, strict=True)
        ],
    }


def _as_object(arguments: object) -> str:
    """The JSON of an object: of no other value, and of none that is nested too deeply to be written again."""
    try:
        return orjson.dumps(arguments if isinstance(arguments, dict) else {}).decode()
    except orjson.JSONEncodeError:
        return "{}"
