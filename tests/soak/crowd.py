"""Many people at once, several turns each, a third of them stopped or cut; and what everybody may then expect.

Everyone first has one turn to themselves, so that there is something of theirs in every prompt. Then all turns are
brought to a place where the model waits: there they all are under way together, and the model server counts them.
From there each goes to its fate, in an order and at times that chance decides.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tests.fakes.model_server import RecordedRequest
from tests.soak.books import TOKEN, Books
from tests.soak.person import Person, Sending
from tests.soak.stories import Place, Playwright, Story

#: Where a turn of the crowd may wait for its fate: any place before the end.
PLACES = (Place.ASKED, Place.SPOKEN, Place.STAGED, Place.ALMOST)


class Fate(StrEnum):
    """What becomes of a turn. The races let the model go on at the same moment."""

    GO_ON = "goes on"
    STOP = "stopped"
    STOP_RACE = "stopped at the end"
    CUT = "cut"
    CUT_RACE = "cut at the end"
    CUT_EARLY = "cut before the first byte"


#: Two thirds go on; half of the others are stopped, half are cut.
_WEIGHTS = {
    Fate.GO_ON: 12,
    Fate.STOP: 2,
    Fate.STOP_RACE: 1,
    Fate.CUT: 1,
    Fate.CUT_RACE: 1,
    Fate.CUT_EARLY: 1,
}
_RACES = {Fate.STOP_RACE, Fate.CUT_RACE}


@dataclass
class Part:
    """One turn of one person."""

    person: Person
    story: Story
    fate: Fate
    sending: Sending = field(default_factory=lambda: Sending(""))

    @property
    def place(self) -> Place:
        return self.story.waits[0]


class Crowd:
    """People, their turns, and what they were told."""

    def __init__(self, people: Sequence[Person], playwright: Playwright, chance: random.Random) -> None:
        self.people = people
        self.playwright = playwright
        self.chance = chance
        self.parts: list[Part] = []
        self.open_at_once = 0
        self._tokens = (f"t{number:04}" for number in range(10_000))

    async def open(self) -> None:
        """Everybody's first turn, to its end."""
        parts = [Part(person, Story(next(self._tokens), (Place.SPOKEN,)), Fate.GO_ON) for person in self.people]
        await self._play(parts)

    async def run(self, turns_each: int) -> None:
        """So many turns of everybody, all under way at once."""
        fates = list(_WEIGHTS)
        drawn = self.chance.choices(fates, list(_WEIGHTS.values()), k=turns_each * len(self.people))
        parts = [
            Part(person, Story(next(self._tokens), (self.chance.choice(PLACES),)), drawn.pop())
            for person in self.people
            for _ in range(turns_each)
        ]
        self.chance.shuffle(parts)
        await self._play(parts)

    async def _play(self, parts: list[Part]) -> None:
        self.parts += parts
        chats: set[str] = set()
        for part in parts:
            # A conversation takes one message at a time: everyone goes on in theirs once, and opens others.
            is_new = part.person.subject in chats or self.chance.random() < 0.3
            chats.add(part.person.subject)
            part.sending = part.person.send(part.story.message, new_chat=is_new)
            if part.fate is Fate.CUT_EARLY:
                asyncio.get_running_loop().call_later(self._soon(), part.sending.begin_cut)
        standing = [part for part in parts if part.fate is not Fate.CUT_EARLY]
        await asyncio.gather(*(self._stand(part) for part in standing))
        server = self.playwright.server
        assert server is not None
        self.open_at_once = max(self.open_at_once, server.counters.open)
        assert server.counters.open >= len(standing), "they are not all under way together"
        self.chance.shuffle(standing)
        await asyncio.gather(*(self._meet_fate(part) for part in standing))
        await asyncio.gather(*(part.sending.over() for part in parts))
        for part in parts:
            part.person.chat = part.sending.started.get("conversationId", part.person.chat)

    async def _stand(self, part: Part) -> None:
        """Wait until a turn has come to its place; one that was refused never does."""
        arriving = asyncio.create_task(self.playwright.arrived(part.story.token, part.place))
        ending = asyncio.create_task(part.sending.over())
        await asyncio.wait([arriving, ending], return_when=asyncio.FIRST_COMPLETED)
        assert not part.sending.is_over, (part, part.sending.status, part.sending.body[-500:])
        await arriving
        ending.cancel()

    async def _meet_fate(self, part: Part) -> None:
        """At a time of its own; in a race, Stop or the cut is on its way when the model goes on."""
        loop, token = asyncio.get_running_loop(), part.story.token
        await asyncio.sleep(self.chance.uniform(0, 0.5))
        if part.fate is Fate.GO_ON:
            self.playwright.go_on(token, part.place)
        if part.fate in _RACES:
            loop.call_later(self._soon(), self.playwright.go_on, token, part.place)
        if part.fate is Fate.CUT_RACE:
            await asyncio.sleep(self._soon())
        if part.fate in (Fate.STOP, Fate.STOP_RACE):
            assert await part.person.stop(part.sending.key) == 204
        if part.fate in (Fate.CUT, Fate.CUT_RACE):
            await part.sending.cut()

    def _soon(self) -> float:
        """Seconds: a few thousandths as often as a few tenths, whatever the machine can do in them."""
        return self.chance.choice((0.003, 0.03, 0.3, 1.0)) * self.chance.random()

    # What may be expected.

    def assert_told_the_truth(self, books: Books) -> Counter[str]:
        """Each turn ended as its fate allows and as its reader was told; counts fates and outcomes."""
        seen: Counter[str] = Counter()
        for part in self.parts:
            told, stored = part.sending.ended, books.of(part.story.token)
            fate = Fate.CUT if part.fate is Fate.CUT_EARLY and part.sending.body else part.fate
            if not stored:
                assert fate is Fate.CUT_EARLY, part
                seen[f"{fate} → never began"] += 1
                continue
            [turn] = stored
            seen[f"{fate} → {turn.outcome}"] += 1
            assert turn.outcome in _allowed(part.fate), (part, turn)
            if told:
                assert (told["turnId"], told["outcome"], told["memory"]) == (turn.id, turn.outcome, turn.memory_outcome)
            else:
                assert part.fate in (Fate.CUT, Fate.CUT_RACE, Fate.CUT_EARLY), (part, turn)
            if part.fate is Fate.GO_ON:
                assert turn.answer == part.story.answer, turn
        return seen

    def assert_nothing_lost_or_added(self, books: Books) -> None:
        """Everybody's memory is what their completed turns brought: not one entry less, not one more."""
        for person in self.people:
            expected = Counter(
                (target, entry)
                for part in self.parts
                if part.person is person and self._has_completed(part, books)
                for target, entry in part.story.entries.items()
            )
            remembered = books.entries(person.subject)
            found = Counter((target, entry) for target, entries in remembered.items() for entry in entries)
            assert found == expected, person.subject

    def assert_no_cross_talk(self, requests: Sequence[RecordedRequest], pages: dict[str, str]) -> None:
        """Prompt, stream and pages of a person hold tokens of theirs, and of nobody else."""
        whose = {part.story.token: part.person.subject for part in self.parts}
        own = {person.subject: set[str]() for person in self.people}
        for token, subject in whose.items():
            own[subject].add(token)
        for request in requests:
            subject = whose[Story.of(request.last_user_text).token]
            assert _tokens(request.body) <= own[subject], subject
        for part in self.parts:
            assert set(TOKEN.findall(part.sending.body.decode())) <= own[part.person.subject], part
        for subject, page in pages.items():
            assert set(TOKEN.findall(page)) <= own[subject], subject

    def _has_completed(self, part: Part, books: Books) -> bool:
        """By what the stream told; by what is stored where it could not tell any more."""
        if part.sending.ended:
            return part.sending.ended["outcome"] == "completed"
        return any(turn.outcome == "completed" for turn in books.of(part.story.token))


def _allowed(fate: Fate) -> set[str]:
    return {
        Fate.GO_ON: {"completed"},
        Fate.STOP: {"stopped"},
        Fate.STOP_RACE: {"stopped", "completed"},
        Fate.CUT: {"interrupted"},
        Fate.CUT_RACE: {"interrupted", "completed"},
        Fate.CUT_EARLY: {"interrupted"},
    }[fate]


def _tokens(value: Any) -> set[str]:
    """Every token in a decoded JSON value."""
    if isinstance(value, str):
        return set(TOKEN.findall(value))
    if isinstance(value, dict):
        return set().union(*map(_tokens, value.values()))
    return set().union(*map(_tokens, value)) if isinstance(value, list) else set()
