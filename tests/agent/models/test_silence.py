"""The watch over a reader's waits: it interrupts one wait at its deadline and never swallows a cancellation."""

from __future__ import annotations

import asyncio

import pytest

from agent.models.silence import SilenceTimeout, SilenceWatch

LONG = 3600.0


def now() -> float:
    return asyncio.get_running_loop().time()


def never() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


async def at_once(value: str) -> str:
    return value


async def test_a_wait_ends_at_its_deadline() -> None:
    """The awaited thing is cancelled, and the error keeps no context."""
    watch = SilenceWatch(now())
    waited_for = never()

    with pytest.raises(SilenceTimeout) as caught:
        await watch.wait(waited_for)

    assert waited_for.cancelled()
    assert caught.value.__context__ is None
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


async def test_a_deadline_may_move_forward_and_back() -> None:
    """A timer set for later is set anew when the deadline comes nearer, and rings again when it has moved on."""
    watch = SilenceWatch(now() + LONG)
    await watch.wait(at_once("first"))
    watch.move(now() + 0.01)
    watch.move(now() + 0.05)

    with pytest.raises(SilenceTimeout):
        await watch.wait(never())


async def test_a_deadline_that_passes_between_waits_interrupts_nothing() -> None:
    """Nobody waits, nothing is cancelled; the next wait has the deadline it is given."""
    watch = SilenceWatch(now())
    await watch.wait(at_once("first"))
    after_the_timer: asyncio.Future[None] = never()
    asyncio.get_running_loop().call_later(0.01, after_the_timer.set_result, None)
    await after_the_timer
    watch.move(now() + LONG)

    assert await watch.wait(asyncio.sleep(0, "second")) == "second"
    watch.stop()


async def test_a_cancellation_is_never_turned_into_a_timeout() -> None:
    """Cancelled from outside, also in the very moment of the deadline, the task is cancelled."""
    task: asyncio.Task[None]

    async def wait() -> None:
        watch = SilenceWatch(now())
        asyncio.get_running_loop().call_at(now(), task.cancel)
        await watch.wait(never())

    task = asyncio.create_task(wait())
    await asyncio.wait({task})

    assert task.cancelled()


async def test_an_interruption_is_a_timeout_now() -> None:
    """Whoever waits is woken at once; without anybody waiting nothing happens."""
    watch = SilenceWatch(now() + LONG)
    watch.interrupt()
    asyncio.get_running_loop().call_soon(watch.interrupt)

    with pytest.raises(SilenceTimeout):
        await watch.wait(never())
    watch.stop()


async def test_an_error_of_what_is_awaited_passes_through() -> None:
    """The watch knows time only: other errors are not its own."""
    watch = SilenceWatch(now() + LONG)

    async def fail() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        await watch.wait(fail())
    watch.stop()
