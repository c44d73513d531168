"""Leaving an answer, at any await and in any way, closes the model's connection within two seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio
import pytest

from agent.errors import ModelFault, ModelStreamBroken
from agent.models.chat_completions import ChatCompletions
from agent.models.protocol import TextPiece
from tests.agent.models.asking import QUESTION, WAIT_SECONDS, ask
from tests.fakes.model_server import (
    Gate,
    ModelServer,
    Script,
    begin,
    delta,
    finish,
    raw,
    stall,
    text,
    tool,
    whole,
)

PROMPTLY = 2.0

Reading = Callable[[], Coroutine[Any, Any, object]]

PHASES: dict[str, Script] = {
    "before the status": (stall(),),
    "after the headers": (begin(), stall()),
    "before the first token": (delta({"role": "assistant", "content": ""}), stall()),
    "in the middle of the text": (text("Hel", "lo"), stall()),
    "in the middle of a line": (raw(b'data: {"choices":[{"delta":{"cont'), stall()),
    "in the middle of a tool call": (tool("memory_update", '{"operations":['), stall()),
    "in the middle of a whole completion": (begin("application/json"), raw(b'{"choices":'), stall()),
    "after the finish reason": (text("Hello"), finish("stop"), stall()),
}


async def by_native_cancel(reading: Reading, is_under_way: Callable[[], Awaitable[object]]) -> None:
    """`Task.cancel()`, as at shutdown."""
    task = asyncio.ensure_future(reading())
    await is_under_way()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def by_anyio_cancel(reading: Reading, is_under_way: Callable[[], Awaitable[object]]) -> None:
    """A cancel scope, as when a response's client has gone: every later await is cancelled again."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reading)
        await is_under_way()
        tasks.cancel_scope.cancel()


@pytest.mark.invariant("I13")
@pytest.mark.parametrize("cancel", [by_native_cancel, by_anyio_cancel])
@pytest.mark.parametrize("phase", PHASES)
async def test_cancelling_closes_the_upstream(
    server: ModelServer,
    model: ChatCompletions,
    phase: str,
    cancel: Callable[..., Awaitable[None]],
) -> None:
    """Whatever is being waited for, a cancelled reader leaves no open connection, and no request half made."""
    server.play(*PHASES[phase])

    async def is_under_way() -> None:
        await server.reached(open=1)

    await cancel(lambda: ask(model), is_under_way)

    await server.reached(aborted=1, within_seconds=PROMPTLY)
    assert (server.counters.open, server.counters.requests) == (0, 1)


@pytest.mark.invariant("I13")
async def test_cancelling_between_reads_closes_the_upstream(server: ModelServer, model: ChatCompletions) -> None:
    """A reader that is busy with a piece when the cancel comes leaves as cleanly as one that waits."""
    server.play(text("Hel"), stall())
    has_a_piece = asyncio.Event()

    async def read() -> None:
        async with model.open(QUESTION) as answer:
            async for _ in answer:
                has_a_piece.set()
                await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(read())
    await asyncio.wait_for(has_a_piece.wait(), WAIT_SECONDS)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await server.reached(aborted=1, within_seconds=PROMPTLY)


async def test_breaking_off_closes_the_upstream(server: ModelServer, model: ChatCompletions) -> None:
    """Leaving the loop and the context without any cancellation is enough."""
    server.play(text("Hel"), stall())

    async with model.open(QUESTION) as answer:
        async for piece in answer:
            assert isinstance(piece, TextPiece)
            break

    await server.reached(aborted=1, within_seconds=PROMPTLY)


async def test_an_error_of_the_reader_closes_the_upstream(server: ModelServer, model: ChatCompletions) -> None:
    """An exception that is none of ours passes through unchanged, and the connection is closed."""
    server.play(text("Hel"), stall())

    async def fail() -> None:
        async with model.open(QUESTION) as answer:
            await anext(answer)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()

    await server.reached(aborted=1, within_seconds=PROMPTLY)


async def test_not_reading_at_all_closes_the_upstream(server: ModelServer, model: ChatCompletions) -> None:
    """A context that is entered and left is a request made and a connection closed."""
    server.play(begin(), stall())

    async with model.open(QUESTION):
        pass

    await server.reached(aborted=1, within_seconds=PROMPTLY)


async def test_a_time_limit_around_it_stays_a_time_limit(server: ModelServer, model: ChatCompletions) -> None:
    """The turn's own limit cancels the read; it is not mistaken for the adapter's, nor swallowed by it."""
    server.play(text("Hel"), stall())

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ask(model), timeout=0.1)

    await server.reached(aborted=1, within_seconds=PROMPTLY)


async def test_closing_the_adapter_breaks_open_answers_off(server: ModelServer, model: ChatCompletions) -> None:
    """At shutdown an answer under way ends with an error of ours, and nothing can be asked afterwards."""
    server.play(text("Hel"), stall())
    has_text = Gate()
    reading = asyncio.create_task(ask(model, opens=has_text))
    await has_text.wait()

    await model.close()
    broken, refused = await reading, await ask(model)

    assert broken.error is not None
    assert broken.error.code is ModelFault.CUT
    assert refused.error is not None
    assert refused.error.code is ModelFault.CONNECTION_FAILED
    await server.reached(aborted=1, within_seconds=PROMPTLY)


async def test_a_busy_reader_meets_the_closed_adapter_at_its_next_read(
    server: ModelServer, model: ChatCompletions
) -> None:
    """Whoever was not waiting when the adapter closed is told at the next read, instead of waiting for ever."""
    server.play(text("Hel"), stall())

    async with model.open(QUESTION) as answer:
        await anext(answer)
        await model.close()
        with pytest.raises(ModelStreamBroken):
            await anext(answer)


async def test_a_hundred_cancelled_answers_leave_nothing_open(server: ModelServer, model: ChatCompletions) -> None:
    """All of them at once, in every phase: every connection is closed, and the adapter answers on."""
    scripts = list(PHASES.values())
    server.choose = lambda _: scripts[server.counters.requests % len(scripts)]
    tasks = [asyncio.create_task(ask(model)) for _ in range(100)]
    await server.reached(open=100)

    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)

    await server.reached(aborted=100, within_seconds=PROMPTLY)
    server.play(whole({"choices": [{"message": {"content": "Still here"}, "finish_reason": "stop"}]}))
    assert (await ask(model)).text == "Still here"
