"""The turns this process runs: one task each, whoever reads them, and the ways to end them from outside.

A turn runs in a task of its own and speaks into an outbox; the response only reads. So a client that goes away, a
Stop, a sign-out, another process and a shutdown all end a turn in the same way: ``interrupt`` with the reason, then
wait until the end is on record. Nothing here knows HTTP or SQL.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from agent import telemetry
from agent.begin import BegunTurn, TurnRequest
from agent.conversation import Limits
from agent.events import TextDelta, TurnEvent
from agent.interruption import Interruption
from agent.liveness import Running
from agent.outcome import Outcome
from agent.runtime import AgentRuntime
from agent.turn import run_turn
from agent.turn_desk import TurnDesk

#: Readers show text at most so often (DESIGN R22), so nothing is gained by reading it more often.
PACE_SECONDS = 0.04
#: Reads a second that one process makes for all its answers; when there are many, each flows in larger pieces.
READS_A_SECOND = 500
#: The longest pause in which text still seems to flow.
LONGEST_PAUSE_SECONDS = 0.25

#: How long a process that closes waits for its turns' ends: one transaction's bounds, and some more.
CLOSING_SECONDS = 20.0


class Outbox:
    """Events on their way from a turn to its one reader.

    Texts that wait are joined, so a slow reader costs no memory per piece, and a reader that paces itself is woken once
    for many of them. Anything else wakes it at once.
    """

    def __init__(self) -> None:
        self._events: list[TurnEvent] = []
        self._texts: list[str] = []
        self._wake: asyncio.Event = asyncio.Event()
        self._texts_from = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def put(self, event: TurnEvent) -> None:
        if isinstance(event, TextDelta):
            self._texts.append(event.text)
            self._wake_for_text()
        else:
            self._join()
            self._events.append(event)
            self._wake.set()

    def close(self) -> None:
        """Nothing will come any more."""
        self._is_closed = True
        self._wake.set()

    async def take(self, texts_from: float = 0.0) -> list[TurnEvent] | None:
        """What waits, as soon as there is something; None when nothing will come any more.

        ``texts_from``: text alone is not handed out before this time of the loop's clock.
        """
        loop = asyncio.get_running_loop()
        self._texts_from = texts_from
        try:
            while not self._events:
                if self._texts and (self._is_closed or loop.time() >= texts_from):
                    break
                if self._is_closed:
                    return None
                self._wake.clear()
                if self._texts:
                    self._wake_for_text()
                await self._wake.wait()
        finally:
            self._stop_timer()
        self._join()
        taken, self._events = self._events, []
        return taken

    def _wake_for_text(self) -> None:
        """Wake the reader now, or when it takes text again; one timer does for all that comes until then."""
        loop = asyncio.get_running_loop()
        if loop.time() >= self._texts_from:
            self._wake.set()
        elif self._timer is None:
            self._timer = loop.call_at(self._texts_from, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._wake.set()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _join(self) -> None:
        if self._texts:
            self._events.append(TextDelta("".join(self._texts)))
            self._texts = []


class RunningTurn:
    """A turn and the task that runs it."""

    def __init__(self, turn: BegunTurn, agents: AgentRuntime, desk: TurnDesk, limits: Limits) -> None:
        self.turn = turn
        self.outbox = Outbox()
        self._interruption = Interruption()
        self.task = asyncio.create_task(self._run(agents, desk, limits), name=turn.id)
        self.task.add_done_callback(lambda _: self.outbox.close())

    def interrupt(self, outcome: Outcome) -> None:
        """Ask the turn to end as *stopped* or *interrupted*. It may have ended already; then nothing happens."""
        self._interruption.interrupt(outcome)

    async def ended(self) -> None:
        """Wait until the end is on record. A cancelled wait does not disturb the turn."""
        while not self.task.done():
            await asyncio.wait([self.task])

    def when_ended(self, call: Callable[[], object]) -> None:
        self.task.add_done_callback(lambda _: call())

    async def _run(self, agents: AgentRuntime, desk: TurnDesk, limits: Limits) -> None:
        try:
            async for event in run_turn(self.turn, agents, desk, limits, self._interruption):
                self.outbox.put(event)
        except Exception as fault:  # noqa: BLE001 - the task's edge: the turn is ended and recorded; what is left is to say so
            telemetry.fault("turn_fault", fault, turn_id=self.turn.id)


class RunningTurns:
    """The registry of one process: opens turns, ends them, and knows which ones run."""

    def __init__(self, desk: TurnDesk, agents: AgentRuntime, limits: Limits) -> None:
        self.desk = desk
        self._agents = agents
        self._limits = replace(limits, pause_seconds=self._pause_seconds)
        self._running: dict[str, RunningTurn] = {}
        #: Turns that are being put on record, and how somebody meanwhile asked them to end.
        self._opening: dict[str, Outcome | None] = {}
        self._closing = False

    def _pause_seconds(self) -> float:
        """A little more than the readers' pace, so that each read makes one frame; longer when many answers run."""
        return min(max(1.1 * PACE_SECONDS, len(self._running) / READS_A_SECOND), LONGEST_PAUSE_SECONDS)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._running)

    def now(self) -> Running:
        """What this process answers for at this moment. Callable from any thread.

        A turn passes from *opening* to *running* to *unrecorded*; asked in that order, none slips through.
        """
        opening = tuple(self._opening)
        running = self.ids
        return Running(running, (*opening, *self.desk.unrecorded))

    async def open(self, request: TurnRequest) -> RunningTurn:
        """Begin a turn and run it. Raises what ``begin_turn`` raises; then nothing runs.

        Whoever opens a turn sees to its end: waits for ``ended``, or interrupts it when nobody reads any more. A
        cancelled call leaves no running turn.
        """
        self._opening[request.turn_id] = None
        try:
            turn = await self.desk.begin(request)
            running = RunningTurn(turn, self._agents, self.desk, self._limits)
            self._running[turn.id] = running
        finally:
            asked_to_end = self._opening.pop(request.turn_id)
        running.when_ended(lambda: self._running.pop(turn.id, None))
        if asked_to_end is not None:
            running.interrupt(asked_to_end)
        if self._closing:
            running.interrupt(Outcome.INTERRUPTED)
        return running

    def interrupt(self, turn_id: str, outcome: Outcome) -> None:
        """End a turn if this process runs it, or is just putting it on record."""
        if running := self._running.get(turn_id):
            running.interrupt(outcome)
        elif self._opening.get(turn_id, outcome) is None:
            self._opening[turn_id] = outcome

    async def close(self, within_seconds: float = CLOSING_SECONDS) -> None:
        """Interrupt every turn and wait until each end is on record, but not for ever: what a database that is away
        does not take by then is left to the sweep of whoever comes next.
        """
        self._closing = True
        for running in self._running.values():
            running.interrupt(Outcome.INTERRUPTED)
        if self._running:
            await asyncio.wait([running.task for running in self._running.values()], timeout=within_seconds)
