"""The life of one process: its heartbeat, the sweep after others, and its ear for turns that were ended elsewhere.

Everything here may fail for a while without harm: a database that is away is tried again with the next beat.
"""

import asyncio
from contextlib import suppress

import psycopg
from sqlalchemy.engine import Engine

from agent.discard import CHANNEL
from agent.liveness import BEAT_SECONDS, beat, leave, sweep
from agent.outcome import Outcome
from agent.running import RunningTurns
from memory_core.database.worker import Workers
from memory_core.errors import StorageFailed
from memory_core.receipts import sweep_expired_undo

#: Beats between two sweeps of undo texts whose time is over.
_UNDO_SWEEP_BEATS = 15
_LISTEN_AGAIN_SECONDS = 2.0


class Process:
    """``direct_url`` goes past a pooler: LISTEN needs a connection of its own."""

    def __init__(
        self, process_id: str, engine: Engine, workers: Workers, running: RunningTurns, direct_url: str
    ) -> None:
        self.id = process_id
        self._engine = engine
        self._workers = workers
        self._running = running
        self._direct_url = direct_url
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Beat once, so that the process is known before it runs a turn, and go on in the background."""
        await self._beat()
        self._tasks = [asyncio.create_task(self._keep_beating()), asyncio.create_task(self._keep_listening())]

    async def close(self) -> None:
        """End in good order: turns are interrupted and recorded, and the process's row goes."""
        await self._running.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._workers.run_to_end(self._leave)

    async def _keep_beating(self) -> None:
        beats = 0
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            beats += 1
            with suppress(StorageFailed):
                await self._beat()
                await self._workers.run(lambda: sweep(self._engine))
                if beats % _UNDO_SWEEP_BEATS == 0:
                    await self._workers.run(lambda: sweep_expired_undo(self._engine))

    async def _beat(self) -> None:
        running = self._running.ids
        ended = await self._workers.run(lambda: self._beat_now(running))
        for turn_id in ended:
            self._running.interrupt(turn_id, Outcome.STOPPED)

    def _beat_now(self, running: tuple[str, ...]) -> tuple[str, ...]:
        self._running.desk.record_later()
        waiting = tuple(self._running.desk.unrecorded)
        ended = beat(self._engine, self.id, (*running, *waiting))
        return tuple(turn_id for turn_id in ended if turn_id in running)

    async def _keep_listening(self) -> None:
        while True:
            with suppress(psycopg.Error, OSError):
                await self._listen()
            await asyncio.sleep(_LISTEN_AGAIN_SECONDS)

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
