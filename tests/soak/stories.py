"""What the model does in a turn: it is written into the person's own message, so that any number of turns, in any order
and in any process, are answered by one scripted server.

    story = Story("t0042", waits=(Place.STAGED,))
    ... person.send(story.message) ...
    await playwright.arrived("t0042", Place.STAGED)      # the model stands there
    playwright.go_on("t0042", Place.STAGED)

Every story is the same: a word, a change of both documents, a word, the end. Its token stands in the question, in the
answer and in both entries, and nowhere else.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson

from memory_core.document import Target
from tests.fakes.gate import Gate
from tests.fakes.model_exchange import Exchange, RecordedRequest
from tests.fakes.model_server import ModelServer, Script, Step, finish, serve_in_thread, text, tool, usage

#: Enough for 500 turns at once on a machine that is busy with other things.
PATIENCE_SECONDS = 120.0


class Place(StrEnum):
    """Where the model can be met, and made to wait."""

    ASKED = "asked"  # the first request has come; nothing is said
    SPOKEN = "spoken"  # half a sentence is said
    STAGED = "staged"  # the second request has come: the change is staged; nothing more is said
    ALMOST = "almost"  # all but the last word is said
    DONE = "done"  # the finish reason is sent: what follows is the commit


@dataclass(frozen=True)
class Story:
    """One turn. `hold` names a moment of the database (`holds.py`); `pace_seconds` is the pause between two steps."""

    token: str
    waits: tuple[Place, ...] = ()
    hold: str = ""
    pace_seconds: float = 0.0
    adds: bool = True

    @property
    def message(self) -> str:
        """The question, as the person types it."""
        told = {"token": self.token, "waits": self.waits, "hold": self.hold, "pace": self.pace_seconds}
        return orjson.dumps({**told, "adds": self.adds}).decode()

    @classmethod
    def of(cls, message: str) -> "Story":
        told = orjson.loads(message)
        waits = tuple(Place(place) for place in told["waits"])
        return cls(told["token"], waits, told["hold"], told["pace"], told["adds"])

    @property
    def entries(self) -> dict[Target, str]:
        """What the turn wants remembered; both or neither."""
        return {Target.USER: f"{self.token} u", Target.MEMORY: f"{self.token} m"} if self.adds else {}

    @property
    def answer(self) -> str:
        """The whole answer of a turn that ends well. What is kept of any other is a beginning of it."""
        return "\n\n".join(filter(None, [self._opening, self._closing]))

    @property
    def _opening(self) -> str:
        return f"{self.token} one two." if self.adds else ""

    @property
    def _closing(self) -> str:
        return f"{self.token} three {self.hold} four."


@dataclass
class _Meeting:
    """A place of a story: whether the model has come there, and whether it may go on."""

    arrived: Gate = field(default_factory=Gate)
    may_go_on: Gate = field(default_factory=Gate)
    has_arrived: bool = False


class Playwright:
    """Chooses scripts for a model server, and tells where each story stands. Any thread may ask."""

    def __init__(self) -> None:
        self.server: ModelServer | None = None
        self._lock = threading.Lock()
        self._meetings: dict[tuple[str, Place], _Meeting] = {}

    def choose(self, request: RecordedRequest) -> Script:
        """The script of one request."""
        story = Story.of(request.last_user_text)
        if not story.adds:
            return self._last_words(story)
        return self._last_words(story) if request.messages[-1]["role"] == "tool" else self._first_words(story)

    def has_arrived(self, token: str, place: Place) -> bool:
        return self._meeting(token, place).has_arrived

    async def arrived(self, token: str, place: Place) -> None:
        """Wait until the model has come to a place; for a few, by their tokens, use `asyncio.gather`."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._meeting(token, place).arrived.wait()

    def go_on(self, token: str, place: Place) -> None:
        self._meeting(token, place).may_go_on.open()

    def _first_words(self, story: Story) -> Script:
        operations = [
            {"target": str(target), "action": "add", "content": content} for target, content in story.entries.items()
        ]
        steps = [
            self._at(story, Place.ASKED),
            text(f"{story.token} one "),
            self._at(story, Place.SPOKEN),
            text("two."),
            tool("memory_update", {"operations": operations}),
            finish("tool_calls"),
        ]
        return _paced(steps, story.pace_seconds)

    def _last_words(self, story: Story) -> Script:
        steps = [
            self._at(story, Place.STAGED if story.adds else Place.ASKED),
            text(f"{story.token} three "),
            self._at(story, Place.ALMOST),
            text(f"{story.hold} four."),
            finish("stop"),
            usage(12, 3),
            self._at(story, Place.DONE),
        ]
        return _paced(steps, story.pace_seconds)

    def _at(self, story: Story, place: Place) -> Step:
        async def play(exchange: Exchange) -> None:
            meeting = self._meeting(story.token, place)
            meeting.has_arrived = True
            meeting.arrived.open()
            if place in story.waits:
                await exchange.wait_for(meeting.may_go_on.wait())

        return play

    def _meeting(self, token: str, place: Place) -> _Meeting:
        with self._lock:
            return self._meetings.setdefault((token, place), _Meeting())


@contextmanager
def playing_model() -> Iterator[Playwright]:
    """A model server that plays whatever story it is asked for. `playwright.server` counts."""
    playwright = Playwright()
    with serve_in_thread(playwright.choose) as playwright.server:
        yield playwright


def assert_valid_request(request: RecordedRequest) -> None:
    """What the model was asked is a valid request: question and answer in turn, and no tool talk of earlier turns."""
    roles = [message["role"] for message in request.messages]
    told = 1 + len(roles[1:]) // 2 * 2
    if roles[-1] == "tool":  # the second round of this very turn
        assert roles[-3:] == ["user", "assistant", "tool"], roles
        roles = roles[:-2]
    assert roles[0] == "system", roles
    assert roles[1::2] == ["user"] * len(roles[1::2]), roles
    assert roles[2::2] == ["assistant"] * len(roles[2::2]), roles
    assert roles[-1] == "user", roles
    earlier: list[dict[str, Any]] = request.messages[1 : len(roles)]
    assert told >= 1
    assert all(isinstance(message["content"], str) and message["content"] for message in earlier)
    assert not any("tool_calls" in message for message in earlier)


def _paced(steps: list[Step], seconds: float) -> Script:
    """The steps with a pause before each."""
    if not seconds:
        return steps

    async def pause(exchange: Exchange) -> None:
        await exchange.wait_for(asyncio.sleep(seconds))

    return [step for pair in ((pause, step) for step in steps) for step in pair]
