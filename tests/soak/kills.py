"""One round of the kill test: nine people's turns stand at nine moments, and the web process is killed.

The moments are proven, not hoped for: the model's are gates of its script, the database's are locks inside it. Then the
process is paused, everything is read as it stands, and it is killed. Afterwards it is started again, and everybody
sends what was not answered once more, and a next message.
"""

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.memory_core.database.processes import processes_in, wait_until_over
from tests.soak import holds
from tests.soak.books import Books
from tests.soak.holds import DatabaseHolds
from tests.soak.person import Person, Sending
from tests.soak.stories import Place, Playwright, Story
from tests.soak.web_process import WebProcess

#: Within so many seconds of a restart (from where it serves again; a loaded machine starts slowly) every turn has ended
#: and every conversation has taken a message.
RECOVERY_SECONDS = 20.0
UPSTREAM_SECONDS = 2.0
_AGAIN_SECONDS = 0.2


@dataclass(frozen=True)
class Moment:
    """Where a turn stands when the process is killed."""

    name: str
    phase: str
    waits: tuple[Place, ...] = ()
    hold: str = ""

    def story(self, token: str) -> Story:
        return Story(token, self.waits, self.hold)


MOMENTS = (
    Moment("begin, in a statement", "begin", hold=holds.BEGIN_INSERT),
    Moment("begin, in its COMMIT", "begin", hold=holds.BEGIN_COMMIT),
    Moment("before the first byte", "streaming", waits=(Place.ASKED,)),
    Moment("in mid-sentence", "streaming", waits=(Place.SPOKEN,)),
    Moment("staged, in silence", "staged", waits=(Place.STAGED,)),
    Moment("staged, before the last word", "staged", waits=(Place.ALMOST,)),
    Moment("commit, in a statement", "commit", waits=(Place.ALMOST,), hold=holds.COMMIT_INSERT),
    Moment("commit, in its COMMIT", "commit", waits=(Place.ALMOST,), hold=holds.COMMIT_COMMIT),
    Moment("after the end", "after"),
)
PHASES = ("begin", "streaming", "staged", "commit", "after")
_OF_THE_DATABASE = {"begin", "commit"}


@dataclass
class Struck:
    """A turn that was under way when the process was killed, and in which phase the evidence says that it was."""

    person: Person
    story: Story
    sending: Sending
    phase: str = ""
    sent_again: Sending | None = None


@dataclass
class Tally:
    """What a run has counted."""

    kills: int = 0
    struck: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest_recovery: float = 0.0
    slowest_start: float = 0.0

    def __str__(self) -> str:
        phases = ", ".join(f"{phase} {self.struck[phase]}" for phase in PHASES)
        outcomes = ", ".join(f"{name} {count}" for name, count in sorted(self.outcomes.items()))
        turns = sum(self.struck.values())
        times = f"started in {self.slowest_start:.1f} s and recovered in {self.slowest_recovery:.1f} s at most"
        return f"{self.kills} kills, {turns} turns ({phases}); {outcomes}; {times}"


class KillRun:
    """A deployment, its people, and what happened so far."""

    def __init__(self, process: WebProcess, playwright: Playwright, people: Sequence[Person], chance: random.Random):
        self.process = process
        self.playwright = playwright
        self.people = list(people)
        self.chance = chance
        self.tally = Tally()
        self._tokens = (f"t{number:04}" for number in range(10_000))

    async def strike_at_moments(self, moments: Sequence[Moment]) -> None:
        """Bring one turn to each moment, kill the process there, and check everything after its restart."""
        with DatabaseHolds(self.process.database) as doors:
            struck = [self._send(moment, person) for moment, person in self._cast(moments)]
            await self._bring_to_their_moments(struck, doors)
            await self._kill(struck)
        await self._recover(struck)

    async def strike_at_random(self, count: int) -> None:
        """Let turns run freely, begun one after the other, and kill the process whenever it comes."""
        struck = []
        for person in self.chance.sample(self.people, count):
            story = Story(next(self._tokens), pace_seconds=self.chance.choice((0.0, 0.01, 0.03)))
            struck.append(Struck(person, story, person.send(story.message, new_chat=self._tosses())))
            await asyncio.sleep(self.chance.uniform(0, 0.05))
        await asyncio.sleep(self.chance.uniform(0, 0.3))
        await self._kill(struck)
        await self._recover(struck)

    def _cast(self, moments: Sequence[Moment]) -> list[tuple[Moment, Person]]:
        return list(zip(moments, self.chance.sample(self.people, len(moments)), strict=True))

    def _send(self, moment: Moment, person: Person) -> Struck:
        """Begin a turn; what the database is to hold in its begin is sent last, when everything else stands."""
        story = moment.story(next(self._tokens))
        sending = Sending("") if moment.phase == "begin" else person.send(story.message, new_chat=self._tosses())
        return Struck(person, story, sending, moment.phase)

    async def _bring_to_their_moments(self, struck: list[Struck], doors: DatabaseHolds) -> None:
        waiting = [self.playwright.arrived(turn.story.token, place) for turn in struck for place in turn.story.waits]
        await asyncio.gather(*waiting, *(turn.sending.over() for turn in struck if turn.phase == "after"))
        for turn in struck:
            if turn.phase == "begin":
                turn.sending = turn.person.send(turn.story.message, new_chat=self._tosses())
            if turn.phase == "commit":
                self.playwright.go_on(turn.story.token, Place.ALMOST)
        for word, count in Counter(turn.story.hold for turn in struck if turn.story.hold).items():
            assert await asyncio.to_thread(doors.wait_for, word, count), f"{word}: {self.process.log[-2000:]}"

    async def _kill(self, struck: list[Struck]) -> None:
        """Pause the process, note where each turn really is, and kill it; with it goes its embedded server."""
        self.process.signal(signal.SIGSTOP)
        books = Books.read(self.process.database)
        for turn in struck:
            turn.phase = self._phase(turn, books)
        postmaster = None if self.process.database_url else self.process.postmaster
        await self.process.kill()
        self.tally.kills += 1
        self.tally.struck.update(turn.phase for turn in struck)
        if postmaster is not None:
            await asyncio.to_thread(wait_until_over, postmaster)
            assert processes_in(self.process.data_dir) == []
        await self._assert_upstreams_closed()
        for turn in struck:
            await turn.sending.over()

    def _phase(self, turn: Struck, books: Books) -> str:
        """Where a turn is, by what the database and the model server hold."""
        token, stored = turn.story.token, books.of(turn.story.token)
        if not stored:
            return "begin"
        if stored[0].outcome != "running":
            return "after"
        if self.playwright.has_arrived(token, Place.DONE):
            return "commit"
        return "staged" if self.playwright.has_arrived(token, Place.STAGED) else "streaming"

    async def _assert_upstreams_closed(self) -> None:
        assert self.playwright.server is not None
        give_up_at = time.monotonic() + UPSTREAM_SECONDS
        while self.playwright.server.counters.open:
            assert time.monotonic() < give_up_at, f"open upstreams: {self.playwright.server.counters}"
            await asyncio.sleep(0.02)

    async def _recover(self, struck: list[Struck]) -> None:
        for turn in struck:
            for place in turn.story.waits:
                self.playwright.go_on(turn.story.token, place)
        await self.process.start()
        following = await asyncio.gather(*(self._carry_on(turn) for turn in struck))
        took = time.monotonic() - self.process.ready_at
        self.tally.slowest_recovery = max(self.tally.slowest_recovery, took)
        self.tally.slowest_start = max(self.tally.slowest_start, self.process.ready_at - self.process.started_at)
        books = Books.read(self.process.database)
        assert took < RECOVERY_SECONDS, f"recovered after {took:.1f} s"
        books.assert_balanced()
        for turn, next_story in zip(struck, following, strict=True):
            self._assert_truth(turn, books)
            assert books.turn(next_story.token).memory_outcome == "committed"

    async def _carry_on(self, turn: Struck) -> Story:
        """What a person does next: send again what was not answered (it runs once), then say something new."""
        person, sending = turn.person, turn.sending
        if not sending.ended:
            again = await person.say(turn.story.message, key=sending.key, new_chat="/turns" not in sending.path)
            assert again.status in (200, 204), (again.status, again.body)
            if again.status == 204:
                person.chat = again.headers["HX-Redirect"].rpartition("/")[2]
            turn.sent_again = again
        else:
            person.chat = sending.started["conversationId"]
        story = Story(next(self._tokens))
        while (answer := await person.say(story.message)).status == 409:
            assert time.monotonic() < self.process.ready_at + RECOVERY_SECONDS, "the conversation stays closed"
            await asyncio.sleep(_AGAIN_SECONDS)
        assert (answer.status, answer.ended.get("outcome")) == (200, "completed"), (answer.status, answer.ended)
        return story

    def _assert_truth(self, turn: Struck, books: Books) -> None:
        """The struck turn is what its phase allows, its memory follows its outcome, and nobody was told otherwise."""
        stored = books.turn(turn.story.token)
        again = turn.sent_again is not None and turn.sent_again.status == 200
        if again:
            assert turn.phase == "begin", turn
            assert stored.outcome == "completed"
        else:
            allowed = {
                "begin": {"interrupted"},
                "streaming": {"interrupted"},
                "staged": {"interrupted"},
                "commit": {"interrupted", "completed"},
                "after": {"completed"},
            }
            assert stored.outcome in allowed[turn.phase], (turn.phase, stored)
        remembered = books.entries(turn.person.subject)
        for target, entry in turn.story.entries.items():
            times = remembered.get(target, ()).count(entry)
            assert times == (stored.outcome == "completed"), (turn.phase, stored, target)
        if turn.sending.ended:
            assert turn.sending.ended["outcome"] == stored.outcome
            assert turn.sending.ended["memory"] == stored.memory_outcome
        self.tally.outcomes[f"{turn.phase} → {'sent again' if again else stored.outcome}"] += 1

    def _tosses(self) -> bool:
        """Whether a turn opens a new conversation."""
        return self.chance.random() < 0.3
