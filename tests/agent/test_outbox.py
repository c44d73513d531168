"""The way of events from a turn to its one reader: nothing is lost, reordered or handed out too early."""

import asyncio

import pytest

from agent.events import TextDelta, ToolStarted, TurnEvent, TurnStarted
from agent.running import Outbox
from tests.agent.turning import soon

STARTED, TOOL = TurnStarted("trn_1", "cht_1"), ToolStarted("memory_update")


def in_an_hour() -> float:
    return asyncio.get_running_loop().time() + 3600


async def test_what_waits_is_taken_at_once_and_in_order() -> None:
    """Texts that stand side by side are one; an event between two texts keeps them apart."""
    outbox = Outbox()
    for event in (STARTED, TextDelta("a"), TextDelta("b"), TOOL, TextDelta("c")):
        outbox.put(event)

    assert await soon(outbox.take()) == [STARTED, TextDelta("ab"), TOOL, TextDelta("c")]


async def test_a_waiting_reader_is_woken_by_the_first_thing() -> None:
    """Text without a pace leaves at once."""
    outbox = Outbox()
    reader = asyncio.ensure_future(outbox.take())
    await asyncio.sleep(0)
    assert not reader.done()

    outbox.put(TextDelta("a"))

    assert await soon(reader) == [TextDelta("a")]


async def test_text_alone_is_not_handed_out_before_its_time() -> None:
    """And any other event takes it along at once."""
    outbox = Outbox()
    reader = asyncio.ensure_future(outbox.take(in_an_hour()))
    for _ in range(3):
        outbox.put(TextDelta("a"))
        await asyncio.sleep(0)
    assert not reader.done()

    outbox.put(TOOL)

    assert await soon(reader) == [TextDelta("aaa"), TOOL]


async def test_text_is_handed_out_when_its_time_has_come() -> None:
    """Also text that came after the reader had begun to wait, and text that came before."""
    loop, outbox = asyncio.get_running_loop(), Outbox()
    for early in (True, False):
        time = loop.time() + 0.01
        if early:
            outbox.put(TextDelta("a"))
        reader = asyncio.ensure_future(outbox.take(time))
        await asyncio.sleep(0)
        if not early:
            outbox.put(TextDelta("a"))

        assert await soon(reader) == [TextDelta("a")]
        assert loop.time() >= time


async def test_a_pacing_reader_is_not_woken_by_every_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many pieces between two frames cost one waking, the timer's."""
    outbox, woken = Outbox(), []
    reader = asyncio.ensure_future(outbox.take(in_an_hour()))
    await asyncio.sleep(0)
    monkeypatch.setattr(outbox._wake, "set", lambda: woken.append(1))

    for _ in range(100):
        outbox.put(TextDelta("a"))

    assert woken == []
    monkeypatch.undo()
    outbox.close()
    assert await soon(reader) == [TextDelta("a" * 100)]


async def test_a_closed_outbox_gives_what_it_holds_and_then_nothing() -> None:
    """Text that is held back by its pace is not lost at the end."""
    outbox = Outbox()
    outbox.put(TextDelta("a"))
    outbox.close()

    assert await soon(outbox.take(in_an_hour())) == [TextDelta("a")]
    assert await soon(outbox.take()) is None
    assert await soon(outbox.take(in_an_hour())) is None


async def test_closing_wakes_a_reader() -> None:
    """Whatever it waits for."""
    for time in (0.0, in_an_hour()):
        outbox = Outbox()
        reader = asyncio.ensure_future(outbox.take(time))
        await asyncio.sleep(0)
        outbox.close()
        assert await soon(reader) is None


async def test_a_reader_that_gives_up_leaves_nothing_behind() -> None:
    """A cancelled take loses no event and no timer: the next one finds everything."""
    outbox = Outbox()
    outbox.put(TextDelta("a"))
    reader = asyncio.ensure_future(outbox.take(in_an_hour()))
    await asyncio.sleep(0)
    reader.cancel()
    await asyncio.wait([reader])

    events: list[TurnEvent] | None = await soon(outbox.take())

    assert reader.cancelled()
    assert events == [TextDelta("a")]
