"""Gates: how a test decides when the fake model server goes on. Any thread may open one, any loop may wait for it."""

from __future__ import annotations

import asyncio
import threading

WAIT_SECONDS = 10.0


class Gate:
    """An event that may be opened from any thread and waited for in any loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_open = False
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def open(self) -> None:
        with self._lock:
            self._is_open = True
            waiting, self._waiting = self._waiting, []
        for loop, future in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_resolve, future)

    async def wait(self) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._is_open:
                return
            future: asyncio.Future[None] = loop.create_future()
            self._waiting.append((loop, future))
        await future


async def event_set(event: Gate | asyncio.Event | threading.Event) -> None:
    """Wait for any kind of event without blocking the loop."""
    if isinstance(event, threading.Event):
        opened = Gate()

        def watch() -> None:
            if event.wait(WAIT_SECONDS):
                opened.open()

        threading.Thread(target=watch, name="gate", daemon=True).start()
        await opened.wait()
    else:
        await event.wait()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
