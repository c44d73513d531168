"""The line between the application and its database breaks at random, also in the COMMIT itself.

Whatever a reader was told about the end of a turn is what is stored; where nobody could be told, what is stored agrees
with itself; and as soon as the line holds, everything goes on.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from tests.soak.books import Books
from tests.soak.flaky_line import FlakyLine
from tests.soak.person import Person, Sending, browsers, sign_in
from tests.soak.stories import Place, Playwright, Story
from tests.soak.test_crowd import assert_no_line_is_held
from tests.webapp.product import running_product

CALM_SECONDS = 30.0
PEOPLE = 10
#: How often somebody presses Send, or Stop, while nobody hears it.
TRIES = 100


@pytest.fixture
def line(database_url: str, tmp_path: Path, chance: random.Random) -> Iterator[FlakyLine]:
    """The line to the test's database."""
    folder = tmp_path / "line"
    folder.mkdir()
    with FlakyLine(database_url, folder, chance) as line:
        yield line


class Storm:
    """People who talk while the line breaks, and what each of them was told."""

    def __init__(self, line: FlakyLine, people: list[Person], playwright: Playwright, chance: random.Random) -> None:
        self.line = line
        self.people = people
        self.playwright = playwright
        self.chance = chance
        self.said: list[tuple[Person, Story, Sending]] = []
        self._tokens = (f"t{number:04}" for number in range(10_000))

    async def rage(self, turns_each: int) -> None:
        """So many turns of everybody, one after the other; now and then one is stopped, and all connections are cut."""
        self.line.is_flaky = True
        await asyncio.gather(*(self._talk(person, turns_each) for person in self.people))
        self.line.is_flaky = False

    async def calm_down(self, url: str, unrecorded: Collection[str]) -> None:
        """Wait until no turn is left running and no end is left to record, with the line as it should be."""
        give_up_at = time.monotonic() + CALM_SECONDS
        while (running := Books.read(url).running) or unrecorded:
            assert time.monotonic() < give_up_at, f"left running: {running}, left unrecorded: {list(unrecorded)}"
            await asyncio.sleep(0.2)

    async def go_on(self) -> None:
        """Everybody's next message, in the conversation they are in, is answered and saved."""
        for person in self.people:
            story = Story(next(self._tokens))
            sending = await person.say(story.message)
            self.said.append((person, story, sending))
            assert (sending.status, sending.ended.get("memory")) == (200, "committed"), (sending.status, sending.ended)

    def assert_truth_agrees(self, books: Books) -> Counter[str]:
        """Told and stored are the same; memory holds what completed, once, and nothing else."""
        seen: Counter[str] = Counter()
        for person, story, sending in self.said:
            stored = books.of(story.token)
            outcome = stored[0].outcome if stored else "nothing"
            told = sending.ended.get("outcome", f"status {sending.status}")
            seen[f"{told} → {outcome}"] += 1
            assert len(stored) <= 1
            if sending.ended and told != "running":  # not known yet, by its own word
                assert (told, sending.ended["memory"]) == (outcome, stored[0].memory_outcome), (story, stored)
            remembered = books.entries(person.subject)
            for target, entry in story.entries.items():
                assert remembered.get(target, ()).count(entry) == (outcome == "completed"), (story, stored)
        return seen

    async def _talk(self, person: Person, turns: int) -> None:
        for _ in range(turns):
            is_stopped = self.chance.random() < 0.15
            story = Story(next(self._tokens), (Place.ALMOST,) if is_stopped else ())
            for _ in range(TRIES):
                sending = person.send(story.message, key=story.token)
                if is_stopped:
                    await self._stop(person, story, sending)
                await sending.over()
                if sending.status not in (409, 503):
                    break
                await asyncio.sleep(0.2)
            self.said.append((person, story, sending))
            if self.chance.random() < 0.05:
                self.line.cut_everything()

    async def _stop(self, person: Person, story: Story, sending: Sending) -> None:
        """Press Stop until it was heard; a turn that never began has nothing to stop."""
        arriving = asyncio.create_task(self.playwright.arrived(story.token, Place.ALMOST))
        ending = asyncio.create_task(sending.over())
        await asyncio.wait([arriving, ending], return_when=asyncio.FIRST_COMPLETED)
        for _ in range(TRIES):
            if sending.is_over or await person.stop(sending.key) != 503:
                break
        await ending
        arriving.cancel()


async def run_storm(
    line: FlakyLine,
    url: str,
    data_dir: Path,
    playwright: Playwright,
    chance: random.Random,
    *,
    turns_each: int,
) -> str:
    """A storm and the calm after it; says what was counted."""
    assert playwright.server is not None
    with running_product(line.url, data_dir, playwright.server.base_url) as product:
        async with browsers() as http:
            people = [await sign_in(product.url, f"person {number}", http) for number in range(PEOPLE)]
            storm = Storm(line, people, playwright, chance)
            await storm.go_on()
            await storm.rage(turns_each)
            await storm.calm_down(url, product.services.running.desk.unrecorded)
            await storm.go_on()
            books = Books.read(url)
        assert_no_line_is_held(product, url)
        assert product.services.running.desk.unrecorded == {}
    books.assert_balanced()
    seen = storm.assert_truth_agrees(books)
    counted = ", ".join(f"{what} {count}" for what, count in sorted(seen.items()))
    broken = ", ".join(f"{what} {count}" for what, count in sorted(line.breaks.items()))
    return f"{len(storm.said)} turns, told → stored: {counted}; broken: {broken}"


@pytest.mark.slow
@pytest.mark.invariant("I14")
async def test_what_is_told_is_what_is_stored_whatever_the_line_does(
    line: FlakyLine,
    database_url: str,
    tmp_path: Path,
    playwright: Playwright,
    chance: random.Random,
    tell: Callable[[str], None],
) -> None:
    """50 turns over a line that breaks."""
    tell(await run_storm(line, database_url, tmp_path, playwright, chance, turns_each=5))


@pytest.mark.soak
async def test_a_long_storm(
    line: FlakyLine,
    database_url: str,
    tmp_path: Path,
    playwright: Playwright,
    chance: random.Random,
    tell: Callable[[str], None],
) -> None:
    """400 turns, and every kind of break at a COMMIT."""
    tell(await run_storm(line, database_url, tmp_path, playwright, chance, turns_each=40))
    assert sum("COMMIT" in what for what in line.breaks) == 3, line.breaks
