"""A scripted turn of the gallery: what its message asks for, frame by frame."""

import asyncio
from collections.abc import AsyncIterator

from agent.outcome import Ending, MemoryEnding, MemoryOutcome, Outcome
from memory_core.document import Target
from memory_core.errors import RefusalCode
from memory_core.operations import Action, Change, Operation
from tests.browser import gallery_views as made
from tests.browser.gallery_state import Gallery
from webapp import frames, presenting, words
from webapp.markdown import MarkdownStream
from webapp.views import ChatView, Place, TurnView

PIECE_CHARS = 12
PIECE_SECONDS = 0.01


class Turn:
    """One scripted turn."""

    def __init__(
        self, gallery: Gallery, said: str, conversation: str, key: str, *, is_new_chat: bool, regenerates: str | None
    ) -> None:
        self.gallery, self.said, self.conversation = gallery, said, conversation
        self.is_new_chat, self.regenerates = is_new_chat, regenerates
        self.id = f"trn_{len(gallery.turns) + 1}"
        self.stopped = gallery.stops.setdefault(key, asyncio.Event())
        self.released = gallery.releases.setdefault("all", asyncio.Event())
        self.text = ""
        self.changes: tuple[Change, ...] = ()
        self.question = None if regenerates else made.question(said, 30)

    async def stream(self) -> AsyncIterator[bytes]:
        try:
            async for frame in self._frames():
                yield frame
        except (asyncio.CancelledError, GeneratorExit):
            self.finish(Outcome.INTERRUPTED)
            raise

    async def _frames(self) -> AsyncIterator[bytes]:
        yield self._started()
        await asyncio.sleep(PIECE_SECONDS * 5)
        if "remember" in self.said.lower() and not self.said.lower().startswith("what"):
            self.changes = (Change(Target.USER, None, self.said),)
            yield frames.step(self.id, words.step("memory_update"))
            yield frames.receipt(presenting.waiting(self.id, self.changes))
            yield frames.step(self.id, "")
        markdown = MarkdownStream()
        for start in range(0, len(made.ANSWER), PIECE_CHARS):
            piece = made.ANSWER[start : start + PIECE_CHARS]
            self.text += piece
            change = markdown.feed(piece)
            yield frames.text(self.id, change.frozen, change.live)
            await self._pause(start)
            if self.stopped.is_set():
                yield self._ended(Outcome.STOPPED)
                return
        yield self._ended(Outcome.COMPLETED)

    async def _pause(self, start: int) -> None:
        if "cut" in self.said and start > 200:
            self.finish(Outcome.INTERRUPTED)
            raise ConnectionResetError
        if "hold" in self.said and start > 200:
            waits = {asyncio.ensure_future(event.wait()) for event in (self.stopped, self.released)}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        await asyncio.sleep(PIECE_SECONDS)

    def _started(self) -> bytes:
        turn = made.shell_of(self.id, self.conversation, self.question)
        if not self.is_new_chat:
            return frames.started(turn)
        view = ChatView(self.conversation, self.said[:40], (), self.gallery.panel(Place.SIDE, {}), "")
        return frames.started(turn, chat=view, groups=made.shell(open_chat="demo").groups)

    def _ended(self, outcome: Outcome) -> bytes:
        turn, memory = self.finish(outcome)
        ending = Ending(outcome, None, None, None, memory)
        return frames.ended(
            turn, words.announcement(ending), outcome=outcome, memory=memory.outcome,
            panel=self.gallery.panel(Place.SIDE, {}) if memory.outcome is MemoryOutcome.COMMITTED else None,
            replaces=[self.regenerates] if self.regenerates and outcome is Outcome.COMPLETED else [],
        )  # fmt: skip

    def finish(self, outcome: Outcome) -> tuple[TurnView, MemoryEnding]:
        memory, receipt = MemoryEnding(MemoryOutcome.NONE), None
        if self.changes and outcome is Outcome.COMPLETED:
            self.gallery.apply(Operation(Target.USER, Action.ADD, None, self.said))
            receipt = self.gallery.receipt(self.gallery.keep(self.id, self.changes), is_new=True)
            memory = MemoryEnding(MemoryOutcome.COMMITTED, changes=self.changes)
        elif self.changes:
            receipt = presenting.not_saved(self.id, RefusalCode(outcome))
        ended = presenting.ended(
            Ending(outcome, None, None, None, memory), made.NOW, ended_at=made.NOW, has_text=True, can_regenerate=True
        )
        view = made.answer(
            self.text or made.ANSWER, 30, receipt=receipt, ended=ended, label=words.LABELS[outcome], can_regenerate=True
        )
        turn = TurnView(self.id, self.conversation, view, self.question)
        self.gallery.turns[self.id] = turn
        return turn, memory
