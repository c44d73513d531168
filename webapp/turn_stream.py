"""A running turn as a response: an event stream, or a wait to the end; in both a client that goes away ends the turn.

One POST, one turn, one stream. The turn runs in a task of its own; this response only reads. Whatever ends the response
(a closed tab, a reset, ten seconds without a reader, a shutdown), its own call sees to it that the turn has ended too
before it returns: a generator that never started would run no ``finally``.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import anyio
from sse_starlette import EventSourceResponse
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from agent.outcome import Outcome
from agent.running import RunningTurn
from webapp import frames

#: Seconds between heartbeats, until a reader that takes nothing counts as gone, and for goodbyes at a shutdown.
HEARTBEAT_SECONDS = 15
SEND_SECONDS = 10
GOODBYE_SECONDS = 3.0


class TurnStream(EventSourceResponse):
    """The response of a message sent with script."""

    def __init__(
        self, running: RunningTurn, content: AsyncIterator[bytes], headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(
            content,
            headers=headers,
            ping=HEARTBEAT_SECONDS,
            ping_message_factory=_heartbeat,
            send_timeout=SEND_SECONDS,
            shutdown_event=cast(anyio.Event, _Goodbye(running)),
            shutdown_grace_period=GOODBYE_SECONDS,
        )
        self._running = running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream. Returns when the turn's end is on record, whoever ended it."""
        try:
            await asyncio.sleep(0)  # the turn goes first: the model is asked before anything is shown
            await super().__call__(scope, receive, send)
        except (SendTimeoutError, OSError):
            pass  # the reader is gone; that is an end of the turn and no fault of ours
        finally:
            self._running.interrupt(Outcome.INTERRUPTED)
            with anyio.CancelScope(shield=True):
                await self._running.ended()


class _Goodbye:
    """What sse-starlette sets when the server is asked to stop: the turn ends, and its stream can still say so."""

    def __init__(self, running: RunningTurn) -> None:
        self._running = running

    def set(self) -> None:
        self._running.interrupt(Outcome.INTERRUPTED)


def _heartbeat() -> ServerSentEvent:
    return cast(ServerSentEvent, frames.HEARTBEAT)


async def wait_until_ended(running: RunningTurn, receive: Receive) -> None:
    """For a message sent without script: wait for the end, and end the turn if the client goes away first."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        running.interrupt(Outcome.INTERRUPTED)

    async with anyio.create_task_group() as watching:
        watching.start_soon(watch)
        try:
            await running.ended()
        finally:
            running.interrupt(Outcome.INTERRUPTED)
            with anyio.CancelScope(shield=True):
                await running.ended()
        watching.cancel_scope.cancel()
