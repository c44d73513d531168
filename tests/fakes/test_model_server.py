"""The scripted model server itself: what it counts, how it is held up, and that a thread can run it."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest

from tests.fakes.gate import WAIT_SECONDS
from tests.fakes.model_server import (
    Gate,
    ModelServer,
    error_status,
    finish,
    gate,
    serve_in_thread,
    stall,
    text,
    usage,
    whole,
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def ask(base_url: str, said: str = "Hello?") -> bytes:
    """One request as a browser test's application would make it, read to its end."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": said}]}).encode()
    with urllib.request.urlopen(f"{base_url}/chat/completions", body, timeout=WAIT_SECONDS) as response:
        return bytes(response.read())


def test_a_thread_serves_scripts_in_their_order() -> None:
    """Each request takes the next script; the bytes are OpenAI's wire protocol, `[DONE]` last."""
    with serve_in_thread() as server:
        server.play(text("Hel", "lo"), finish("stop"), usage(3, 2))
        server.play(whole({"second": True}))

        first, second = ask(server.base_url), ask(server.base_url)

        server.wait_reached(completed=2)
        server.wait_idle()
    lines = [line for line in first.split(b"\n") if line]
    assert all(line.startswith(b"data: ") for line in lines)
    assert lines[-1] == b"data: [DONE]"
    assert json.loads(lines[0][6:])["choices"][0]["delta"] == {"content": "Hel"}
    assert json.loads(second) == {"second": True}


@pytest.mark.parametrize(("make", "set_it"), [(Gate, Gate.open), (threading.Event, threading.Event.set)])
def test_a_script_waits_for_an_event_of_another_thread(
    make: Callable[[], Gate], set_it: Callable[[Gate], None]
) -> None:
    """Until it is set the answer is open; then it goes on."""
    event = make()
    with serve_in_thread(lambda request: (gate(event), text(request.last_user_text), finish("stop"))) as server:
        answers: list[bytes] = []
        asking = threading.Thread(target=lambda: answers.append(ask(server.base_url, "Hello?")))
        asking.start()
        server.wait_reached(open=1)
        assert answers == []

        set_it(event)
        asking.join(WAIT_SECONDS)

    assert b"Hello?" in answers[0]
    assert server.requests[0].messages == [{"role": "user", "content": "Hello?"}]


def test_a_request_without_a_script_is_counted_and_refused() -> None:
    """A test that forgot one sees it."""
    with serve_in_thread() as server, pytest.raises(urllib.error.HTTPError):
        ask(server.base_url)

    assert (server.counters.unscripted, server.counters.completed) == (1, 1)


def test_an_error_status_has_openais_shape() -> None:
    """With Retry-After when it is given."""
    busy = error_status(429, retry_after=7)
    with serve_in_thread(lambda _: (busy,)) as server, pytest.raises(urllib.error.HTTPError) as caught:
        ask(server.base_url)

    with caught.value as response:
        assert (response.code, response.headers["Retry-After"]) == (429, "7")
        assert set(json.loads(response.read())["error"]) == {"message", "type", "param", "code"}


async def test_a_client_that_goes_is_counted_as_aborted() -> None:
    """Whatever the script is waiting for, and never as completed."""
    async with ModelServer() as server:
        server.play(text("Hel"), stall())
        port = int(server.base_url.split(":")[2].split("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        await reader.readuntil(b"\r\n\r\n")
        await server.reached(open=1)

        writer.close()

        await server.reached(aborted=1)
        assert (server.counters.open, server.counters.completed) == (0, 0)


async def test_waiting_for_what_does_not_come_fails() -> None:
    """A wait is bounded and says what it has seen."""
    async with ModelServer() as server:
        with pytest.raises(AssertionError, match="aborted"):
            await server.reached(aborted=1, within_seconds=0.01)
