"""Stopping the web process while many answers are being written: in good order, twice, and with a database that hangs.

Every turn is interrupted and nothing of it is saved; the process ends within its bounds and leaves nothing behind.
"""

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from memory_core.database.embedded import EmbeddedServer
from tests.memory_core.database.processes import processes_in, wait_until_over
from tests.soak.books import Books
from tests.soak.crowd import PLACES
from tests.soak.person import Person, Sending, browsers, sign_in
from tests.soak.stopped_database import stopped_database
from tests.soak.stories import Playwright, Story
from tests.soak.web_process import WebProcess, running_process

STREAMS = 20
#: In good order: streams say goodbye, turns are recorded, an embedded server is shut down.
GOOD_ORDER_SECONDS = 15.0
#: With a database that does not answer: every wait has its own bound, and this is more than their sum.
HANGING_SECONDS = 45.0
#: An embedded server is asked to end in three ways, each of which is given its time.
STOPPING_SECONDS = 22.0


@pytest.fixture
def deployment(tmp_path: Path, playwright: Playwright) -> Callable[[str], WebProcess]:
    """Makes a deployment on a database, or on its own."""
    assert playwright.server is not None
    base_url = playwright.server.base_url
    return lambda url: WebProcess(tmp_path / "deployment", base_url, url)


@asynccontextmanager
async def open_streams(
    process: WebProcess, playwright: Playwright, chance: random.Random
) -> AsyncIterator[list[Sending]]:
    """Answers of ten people that are being written, at every place where they can be."""
    async with browsers() as http, running_process(process):
        people: list[Person] = [await sign_in(process.url, f"person {number}", http) for number in range(STREAMS // 2)]
        stories = [Story(f"t{number:04}", (chance.choice(PLACES),)) for number in range(STREAMS)]
        sendings = [
            person.send(story.message, new_chat=True) for person, story in zip(people * 2, stories, strict=True)
        ]
        await asyncio.gather(*(playwright.arrived(story.token, story.waits[0]) for story in stories))
        yield sendings
        await asyncio.gather(*(sending.over() for sending in sendings))


def assert_all_interrupted(books: Books) -> None:
    """On record, and nothing saved."""
    books.assert_balanced()
    assert [turn.outcome for turn in books.turns] == ["interrupted"] * STREAMS
    assert books.receipts == ()


async def stop(process: WebProcess, *signals: int, within_seconds: float) -> float:
    """Send signals, one after the other; seconds until the process has ended. It ends with status 0."""
    begun = time.monotonic()
    for number in signals:
        process.signal(number)
        await asyncio.sleep(0.2 if len(signals) > 1 else 0)
    assert await process.ended(within_seconds) == 0, process.log
    return time.monotonic() - begun


@pytest.mark.slow
@pytest.mark.parametrize(
    "signals",
    [(signal.SIGTERM,), (signal.SIGINT, signal.SIGINT), pytest.param((signal.SIGINT,), marks=pytest.mark.soak)],
    ids=lambda signals: "+".join(signal.Signals(number).name for number in signals),
)
async def test_streams_end_and_turns_are_interrupted(
    deployment: Callable[[str], WebProcess],
    playwright: Playwright,
    chance: random.Random,
    tell: Callable[[str], None],
    signals: tuple[int, ...],
) -> None:
    """With the embedded server, which ends too. Who stops once is told in every stream that it was interrupted."""
    process = deployment("")
    async with open_streams(process, playwright, chance) as sendings:
        postmaster = process.postmaster
        seconds = await stop(process, *signals, within_seconds=GOOD_ORDER_SECONDS)
        wait_until_over(postmaster)
        assert processes_in(process.data_dir) == []
    told = [sending.ended.get("outcome") for sending in sendings]
    tell(f"{signals}: ended in {seconds:.1f} s; told {told.count('interrupted')} of {len(told)}")
    assert set(told) <= {"interrupted", None}
    if len(signals) == 1:
        assert None not in told, process.log
    with EmbeddedServer(process.data_dir) as url:
        assert_all_interrupted(Books.read(url))
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT count(*) FROM remembrancer.processes").fetchone() in [(0,), (1,)]


@pytest.mark.soak
@pytest.mark.invariant("I37")
@pytest.mark.parametrize("is_embedded", [False, True], ids=["external", "embedded"])
async def test_a_database_that_hangs_does_not_hold_the_shutdown(
    deployment: Callable[[str], WebProcess],
    database_url: str,
    playwright: Playwright,
    chance: random.Random,
    tell: Callable[[str], None],
    is_embedded: bool,
) -> None:
    """The process ends without having recorded anything; who comes next finds the turns interrupted.

    An embedded server that does not react is ended too.
    """
    process = deployment("" if is_embedded else database_url)
    async with open_streams(process, playwright, chance) as sendings:
        with stopped_database(process.database):
            seconds = await stop(
                process, signal.SIGTERM, within_seconds=HANGING_SECONDS + is_embedded * STOPPING_SECONDS
            )
        await nothing_left_in(process.data_dir)
        assert {sending.ended.get("outcome") for sending in sendings} <= {"interrupted", None}
    tell(f"ended in {seconds:.1f} s")
    async with running_process(process):
        give_up_at = time.monotonic() + 20
        while (books := Books.read(process.database)).running:
            assert time.monotonic() < give_up_at, books.running
            await asyncio.sleep(0.2)
    assert_all_interrupted(books)


async def nothing_left_in(folder: Path) -> None:
    """Wait until no process works in a folder: paused ones end when they wake up."""
    give_up_at = time.monotonic() + 10
    while left := processes_in(folder):
        assert time.monotonic() < give_up_at, left
        await asyncio.sleep(0.1)
