"""Two web processes on one database: either may end what the other runs, and nothing is told twice in two ways."""

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from agent.outcome import Outcome
from tests.soak.books import Books, Turn
from tests.soak.crowd import PLACES
from tests.soak.holds import COMMIT_COMMIT, DatabaseHolds
from tests.soak.person import Person, Sending, browsers, sign_in
from tests.soak.stories import Place, Playwright, Story
from tests.soak.web_process import WebProcess, running_process
from webapp import words

UPSTREAM_SECONDS = 2.0
SWEPT_SECONDS = 20.0
RACES, FEW_RACES = 150, 10

_WAITERS = """
    SELECT count(*) FROM pg_stat_activity
     WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event <> 'advisory'
"""


@dataclass
class Pair:
    """Two processes, and a person signed in at both with one session."""

    here: WebProcess
    there: WebProcess
    database_url: str
    playwright: Playwright
    ada: Person

    @property
    def elsewhere(self) -> Person:
        return self.ada.at(self.there.url)

    async def begin(self, story: Story, person: Person | None = None) -> Sending:
        """A turn at the first place where it waits."""
        sending = (person or self.ada).send(story.message, new_chat=True)
        await self.playwright.arrived(story.token, story.waits[0])
        return sending

    def turn(self, story: Story) -> Turn:
        return Books.read(self.database_url).turn(story.token)

    async def upstream_closed(self) -> None:
        assert self.playwright.server is not None
        give_up_at = time.monotonic() + UPSTREAM_SECONDS
        while self.playwright.server.counters.open:
            assert time.monotonic() < give_up_at, "the model's stream stays open"
            await asyncio.sleep(0.01)

    async def assert_both_sides_agree(self, story: Story, sending: Sending) -> str:
        """What its reader was told, what the other process shows, and what is stored; returns the outcome."""
        await sending.over()
        turn = self.turn(story)
        assert (sending.ended["outcome"], sending.ended["memory"]) == (turn.outcome, turn.memory_outcome)
        assert len(turn.receipts) == (turn.outcome == "completed")
        page = await self.elsewhere.get(f"/chats/{sending.started['conversationId']}")
        assert words.LABELS[Outcome(turn.outcome)] in page, turn
        assert ("Not saved" in page) == (turn.memory_outcome == "discarded"), turn
        return turn.outcome


@pytest.fixture
async def pair(database_url: str, tmp_path: Path, playwright: Playwright) -> AsyncIterator[Pair]:
    """The two, started, and Ada."""
    assert playwright.server is not None
    here = WebProcess(tmp_path / "here", playwright.server.base_url, database_url)
    there = WebProcess(tmp_path / "there", playwright.server.base_url, database_url)
    async with browsers() as http, running_process(here), running_process(there):
        yield Pair(here, there, database_url, playwright, await sign_in(here.url, "ada", http))


@contextmanager
def locked_owner(url: str) -> Iterator[None]:
    """Somebody holds the lock of every owner: a commit waits for it, a Stop does not."""
    with psycopg.connect(url, connect_timeout=10) as connection:
        connection.execute("SELECT FROM remembrancer.owners FOR NO KEY UPDATE")
        yield


async def until_waiting(url: str) -> None:
    """Return once a transaction waits for another one's lock."""
    give_up_at = time.monotonic() + 3
    with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
        while connection.execute(_WAITERS).fetchone() == (0,):
            assert time.monotonic() < give_up_at, "nobody waits"
            await asyncio.sleep(0.01)


async def stop_at_each_place(pair: Pair) -> None:
    """Stop pressed at the other process: the model's stream is closed at once, and the reader is told."""
    for number, place in enumerate(PLACES):
        story = Story(f"t{number:04}", (place,))
        sending = await pair.begin(story)
        assert await pair.elsewhere.stop(sending.key) == 204
        await pair.upstream_closed()
        assert await pair.assert_both_sides_agree(story, sending) == "stopped"


async def commit_first(pair: Pair) -> None:
    """Stop comes while the COMMIT is under way: it waits, and is too late."""
    story = Story("t0100", (Place.ALMOST,), COMMIT_COMMIT)
    sending = await pair.begin(story)
    with DatabaseHolds(pair.database_url) as doors:
        pair.playwright.go_on(story.token, Place.ALMOST)
        assert await asyncio.to_thread(doors.wait_for, COMMIT_COMMIT)
        stopping = asyncio.create_task(pair.elsewhere.stop(sending.key))
        await until_waiting(pair.database_url)
    assert await stopping == 204
    assert await pair.assert_both_sides_agree(story, sending) == "completed"


async def stop_first(pair: Pair) -> None:
    """Stop comes while the commit waits for its owner's lock: the commit finds the turn claimed."""
    story = Story("t0101", (Place.ALMOST,))
    sending = await pair.begin(story)
    with locked_owner(pair.database_url):
        pair.playwright.go_on(story.token, Place.ALMOST)
        await until_waiting(pair.database_url)
        assert await pair.elsewhere.stop(sending.key) == 204
    assert await pair.assert_both_sides_agree(story, sending) == "stopped"


async def race(pair: Pair, chance: random.Random, count: int) -> Counter[str]:
    """Stop there and the model's last word here, at moments that chance decides; who has won, how often."""
    outcomes: Counter[str] = Counter()
    for number in range(count):
        story = Story(f"t{1000 + number}", (Place.ALMOST,), adds=True)
        sending = await pair.begin(story)
        asyncio.get_running_loop().call_later(chance.uniform(0, 0.06), pair.playwright.go_on, story.token, Place.ALMOST)
        await asyncio.sleep(chance.uniform(0, 0.06))
        assert await pair.elsewhere.stop(sending.key) == 204
        outcomes[await pair.assert_both_sides_agree(story, sending)] += 1
        if number % 20 == 19:  # the pages are finite, and this is no test of that
            pair.ada = await sign_in(pair.here.url, f"ada {number}", pair.ada.http)
    return outcomes


@pytest.mark.slow
@pytest.mark.invariant("I15")
async def test_a_stop_at_the_other_process_has_one_outcome(
    pair: Pair, chance: random.Random, tell: Callable[[str], None]
) -> None:
    """In mid-answer it stops it; against the commit one of the two wins, and both processes say which."""
    await stop_at_each_place(pair)
    await commit_first(pair)
    await stop_first(pair)
    tell(f"races: {dict(await race(pair, chance, FEW_RACES))}")
    Books.read(pair.database_url).assert_balanced()


@pytest.mark.soak
async def test_many_races_of_stop_and_commit(pair: Pair, chance: random.Random, tell: Callable[[str], None]) -> None:
    """Both win sometimes, and nobody is told otherwise."""
    outcomes = await race(pair, chance, RACES)
    Books.read(pair.database_url).assert_balanced()
    tell(f"races: {dict(outcomes)}")
    assert set(outcomes) == {"stopped", "completed"}


@pytest.mark.slow
@pytest.mark.invariant("I14")
async def test_turns_of_a_killed_process_are_ended_by_the_other_and_only_those(pair: Pair) -> None:
    """The survivor's own answers go on, and the conversations of the dead one go on with it."""
    ben = await sign_in(pair.there.url, "ben", pair.ada.http)
    orphans = [Story(f"t{number:04}", (place,)) for number, place in enumerate((Place.SPOKEN, Place.STAGED))]
    others = [Story(f"t{number:04}", (Place.STAGED,)) for number in range(10, 12)]
    lost = [await pair.begin(story) for story in orphans]
    kept = [await pair.begin(story, ben) for story in others]

    await pair.here.kill()
    killed_at = time.monotonic()
    while any(pair.turn(story).outcome == "running" for story in orphans):
        assert time.monotonic() < killed_at + SWEPT_SECONDS, "nobody sweeps"
        await asyncio.sleep(0.2)

    for story in others:
        assert pair.turn(story).outcome == "running"
        pair.playwright.go_on(story.token, Place.STAGED)
    for story, sending in zip(others, kept, strict=True):
        await sending.over()
        assert sending.ended["outcome"] == pair.turn(story).outcome == "completed"
    for number, (story, sending) in enumerate(zip(orphans, lost, strict=True)):
        assert pair.turn(story).outcome == "interrupted"
        ada = pair.elsewhere
        ada.chat = sending.started["conversationId"]
        answer = await ada.say(Story(f"t{20 + number:04}").message)
        assert answer.ended["outcome"] == "completed"
    Books.read(pair.database_url).assert_balanced()


@pytest.mark.soak
@pytest.mark.invariant("I15")
async def test_a_process_that_was_asleep_commits_nothing_that_others_have_ended(pair: Pair) -> None:
    """Paused before the last word for longer than a silence: when it wakes up its turn is not its own any more."""
    story = Story("t0001", (Place.ALMOST,))
    sending = await pair.begin(story)
    pair.here.signal(signal.SIGSTOP)
    slept_at = time.monotonic()
    pair.playwright.go_on(story.token, Place.ALMOST)
    while pair.turn(story).outcome == "running":
        assert time.monotonic() < slept_at + SWEPT_SECONDS, "nobody sweeps"
        await asyncio.sleep(0.2)
    ada = pair.elsewhere
    ada.chat = sending.started["conversationId"]
    meanwhile = await ada.say(Story("t0002").message)
    assert meanwhile.ended["outcome"] == "completed"

    pair.here.signal(signal.SIGCONT)

    await sending.over()
    assert sending.ended["outcome"] == pair.turn(story).outcome == "interrupted"
    books = Books.read(pair.database_url)
    books.assert_balanced()
    assert all("t0001" not in entry for entries in books.entries("ada").values() for entry in entries)
