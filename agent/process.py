"""The life of one process: its heartbeat, the sweep after others, and its ear for turns that were ended elsewhere.

Everything here may fail for a while without harm: a database that is away is tried again with the next beat.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress

import psycopg
from sqlalchemy.engine import Engine

from agent import telemetry
from agent.discard import CHANNEL
from agent.liveness import BEAT_SECONDS, beat, leave, sweep
from agent.outcome import Outcome
from agent.running import RunningTurns
from memory_core.database.worker import Workers
from memory_core.errors import StorageFailed
from memory_core.receipts import sweep_expired_undo

#: Sweeps between two of undo texts whose time is over.
_UNDO_SWEEP_EVERY = 15
_LISTEN_AGAIN_SECONDS = 2.0


class Process:
    """``direct_url`` goes past a pooler: LISTEN needs a connection of its own.

    ``heart`` is a thread for the heartbeat alone, closed with the process: it must not wait behind requests, or others
    would believe us dead.
    """

    def __init__(
        self, process_id: str, engine: Engine, workers: Workers, heart: Workers, running: RunningTurns, direct_url: str
    ) -> None:
        self.id = process_id
        self._engine = engine
        self._workers = workers
        self._heart = heart
        self._running = running
        self._direct_url = direct_url
        self._sweeps = itertools.count(1)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Beat once, so that the process is known before it runs a turn, and go on in the background."""
        await self._beat()
        duties = ((self._beat, BEAT_SECONDS), (self._sweep, BEAT_SECONDS), (self._listen, _LISTEN_AGAIN_SECONDS))
        self._tasks = [asyncio.create_task(_keep(duty, seconds)) for duty, seconds in duties]

    async def close(self) -> None:
        """End in good order: turns are interrupted and recorded, and the process's row goes. Bounded, whatever the
        database does: the sweep of another process sees to the rest.
        """
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(self._running.close(), *self._tasks, return_exceptions=True)
        await self._workers.run_to_end(self._leave)
        self._heart.close()

    async def _beat(self) -> None:
        ended = await self._heart.run(lambda: beat(self._engine, self.id, self._running.now))
        for turn_id in ended:
            self._running.interrupt(turn_id, Outcome.STOPPED)

    async def _sweep(self) -> None:
        await self._workers.run(self._running.desk.record_later)
        await self._workers.run(lambda: sweep(self._engine, self.id))
        if next(self._sweeps) % _UNDO_SWEEP_EVERY == 0:
            await self._workers.run(lambda: sweep_expired_undo(self._engine))

    async def _listen(self) -> None:
        connection = await psycopg.AsyncConnection.connect(self._direct_url, autocommit=True, connect_timeout=5)
        async with connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            async for notice in connection.notifies():
                self._running.interrupt(notice.payload, Outcome.STOPPED)

    def _leave(self) -> None:
        with suppress(StorageFailed):
            self._running.desk.record_later()
            leave(self._engine, self.id)


async def _keep(duty: Callable[[], Awaitable[None]], seconds: float) -> None:
    """Do it, and again after a pause, for ever. No fault ends it: a process that stops beating is taken for dead."""
    while True:
        try:
            await duty()
        except (StorageFailed, psycopg.Error, OSError):
            pass  # the database is away
        except Exception as fault:  # noqa: BLE001 - the edge of the process: it is told, and life goes on
            telemetry.fault("process_fault", fault)
        await asyncio.sleep(seconds)
