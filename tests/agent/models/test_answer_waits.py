"""How long a model is waited for: until it begins, while it says nothing, and as long as it asks for itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from email.utils import format_datetime, parsedate_to_datetime

import pytest

from agent.errors import ModelFault, ModelStreamBroken, ModelUnreachable
from agent.models.chat_completions import ChatCompletions
from agent.models.protocol import RoundEnd
from tests.agent.models.asking import QUESTION, QUESTION_WITH_SENTINEL, adapter, ask, assert_says_nothing
from tests.fakes.model_exchange import Exchange
from tests.fakes.model_server import (
    Gate,
    ModelServer,
    Script,
    Step,
    begin,
    delta,
    error_status,
    finish,
    gate,
    raw,
    stall,
    text,
    tool,
    whole,
)

SOON = 0.1


def heartbeats(line: bytes = b": still here\n\n") -> Step:
    """The same bytes again and again, a hundred times a second, until the client goes."""

    async def play(exchange: Exchange) -> None:
        while True:
            exchange.send(line)
            await exchange.wait_for(asyncio.sleep(0.01))

    return play


@pytest.mark.parametrize(
    "script",
    [
        (stall(),),
        (begin(), stall()),
        (heartbeats(),),
        (heartbeats(b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'),),
        (begin("application/json"), raw(b'{"choices":'), stall()),
    ],
    ids=["nothing", "headers", "comments", "empty chunks", "half a completion"],
)
async def test_a_model_that_does_not_begin_is_unreachable(server: ModelServer, script: Script) -> None:
    """Headers, comments and empty chunks are no beginning: the first-token limit counts from the request on."""
    server.play(*script)

    # Long enough for the question to arrive also where the machine is busy.
    async with adapter(server, first_token_seconds=5 * SOON) as model:
        heard = await ask(model, QUESTION_WITH_SENTINEL)
        await server.reached(aborted=1, within_seconds=2)

    assert type(heard.error) is ModelUnreachable
    assert heard.error.code is ModelFault.NO_ANSWER
    assert_says_nothing(heard.error)


async def test_heartbeats_before_the_beginning_do_no_harm(server: ModelServer) -> None:
    """A server that says it is still loading is waited for, longer than a stall may last."""
    loaded = Gate()
    server.play(raw(b": loading\n\n"), gate(loaded), text("Hello"), finish("stop"))

    async with adapter(server, stall_seconds=SOON) as model:
        asyncio.get_running_loop().call_later(3 * SOON, loaded.open)
        heard = await ask(model)

    assert (heard.text, heard.error) == ("Hello", None)


@pytest.mark.parametrize("first", [
    text("Hel"),
    delta({"reasoning_content": "Let me think"}),
    delta({"reasoning": "Let me think"}),
    tool("memory_update", {"operations": []}),
])  # fmt: skip
@pytest.mark.parametrize("then", [stall, heartbeats], ids=["silence", "comments"])
async def test_a_model_that_stops_has_stalled(server: ModelServer, first: Step, then: Callable[[], Step]) -> None:
    """After any sign of the model silence is a stall, and comments are silence; the upstream is closed."""
    server.play(first, then())

    async with adapter(server, stall_seconds=SOON) as model:
        heard = await ask(model, QUESTION_WITH_SENTINEL)
        await server.reached(aborted=1, within_seconds=2)

    assert type(heard.error) is ModelStreamBroken
    assert heard.error.code is ModelFault.STALLED
    assert_says_nothing(heard.error)


async def test_a_reader_that_takes_its_time_is_no_stall(server: ModelServer) -> None:
    """The clock runs while bytes are waited for, not while nobody asks for them."""
    server.play(text("a"), gate(go_on := Gate()), text("b"), finish("stop"))

    async with adapter(server, stall_seconds=SOON) as model, model.open(QUESTION) as answer:
        first = await anext(answer)
        busy: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(3 * SOON, busy.set_result, None)
        await busy
        go_on.open()
        rest = [piece async for piece in answer]

    assert first is not None
    assert isinstance(rest[-1], RoundEnd)


async def test_waiting_for_a_free_connection_is_bounded_too(server: ModelServer) -> None:
    """With all connections taken the next request waits within its first-token limit, then is told so."""
    server.play(text("a"), stall())

    async with adapter(server, first_token_seconds=SOON, max_connections=1) as model, model.open(QUESTION) as answer:
        await anext(answer)
        heard = await ask(model)

    assert heard.error is not None
    assert heard.error.code is ModelFault.NO_ANSWER


# --- waiting as the server asks --------------------------------------------------------------------------------------

NOON = "Mon, 30 Nov 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "0.5"}, 0.5),
        ({"retry_after": "-3"}, 0.0),
        ({"retry_after": "Mon, 30 Nov 2026 12:00:20 GMT", "date": NOON}, 20.0),
        ({"retry_after": "Mon, 30 Nov 2026 11:00:00 GMT", "date": NOON}, 0.0),
        ({"retry_after_ms": "1500", "retry_after": "2"}, 1.5),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "nan"}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_told(
    server: ModelServer, model: ChatCompletions, headers: dict[str, str], expected: float | None, status: int
) -> None:
    """Seconds, milliseconds or a date measured against the server's own clock; nonsense is no wish at all."""
    server.play(whole({}, status=status, **headers))

    heard = await ask(model)

    assert heard.error is not None
    assert heard.error.retry_after_seconds == expected


async def test_retry_after_can_be_a_date_without_a_date(server: ModelServer, model: ChatCompletions) -> None:
    """Without the server's clock a date is measured against ours: one long past is no wait."""
    past = format_datetime(parsedate_to_datetime("Mon, 01 Jan 2024 00:00:00 GMT"), usegmt=True)
    server.play(error_status(429, retry_after=past))

    heard = await ask(model)

    assert heard.error is not None
    assert heard.error.retry_after_seconds == 0.0
