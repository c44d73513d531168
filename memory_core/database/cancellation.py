"""Cancellation: how somebody else ends a transaction that is waiting.

A cancel is an event first: the transaction reads it before its first query, before it persists and before COMMIT. It is
also sent to the server, again and again until the transaction lets go of its connection, because a cancel that meets
the server between two statements is dropped. If that does not help either, the connection is cut.

A cancel must never meet the next user of a pooled connection: a connection is let go only when no cancel is under way,
and one whose cancel may still arrive is not used again.
"""

import os
import socket
import threading
import time
from contextlib import suppress
from typing import Final

import psycopg

from memory_core.errors import TransactionCancelled

SEND_SECONDS: Final = 2.0
CUT_AFTER_SECONDS: Final = 2.0
_AGAIN_SECONDS: Final = (0.02, 0.05, 0.1, 0.25)


class Cancellation:
    """One request's wish to end. Thread-safe; holds for one transaction at a time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_set = False
        self._connection: psycopg.Connection[object] | None = None
        self._line: socket.socket | None = None
        self._is_sending = False
        self._may_still_arrive = False

    def set(self) -> None:
        """Cancel, now and for good. Returns at once; a statement that is waiting ends within milliseconds."""
        with self._changed:
            if self._is_set:
                return
            self._is_set = True
            self._changed.notify_all()
            if self._connection is not None:
                self._send_from_a_thread(self._connection)

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Wait until it is set, at most so long; whether it is set."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_set, seconds)

    def raise_if_set(self) -> None:
        """Raises TransactionCancelled."""
        if self._is_set:
            raise TransactionCancelled

    def bind(self, connection: psycopg.Connection[object]) -> None:
        """From now on a cancel reaches this connection. Raises TransactionCancelled if it is too late to begin."""
        with self._changed:
            if self._connection is not None:
                raise RuntimeError("a cancellation belongs to one transaction at a time")
            self.raise_if_set()
            # Our own hold on the line: its number cannot be somebody else's by the time we cut it.
            self._line = socket.socket(fileno=os.dup(connection.fileno()))
            self._connection = connection
            self._may_still_arrive = False

    def release(self) -> bool:
        """From now on no cancel reaches the connection. Waits for one that is on its way (bounded by its sending).

        Returns whether the connection may be used again.
        """
        with self._changed:
            self._connection = None
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._is_sending)
            if self._line is not None:
                self._line.close()
                self._line = None
            return not self._may_still_arrive

    def _send_from_a_thread(self, connection: psycopg.Connection[object]) -> None:
        self._is_sending = True
        try:
            threading.Thread(target=self._send, args=(connection,), name="cancel", daemon=True).start()
        except RuntimeError:  # no more threads: the statement's own timeout has to do
            self._is_sending = False

    def _send(self, connection: psycopg.Connection[object]) -> None:
        """Cancel until the connection is let go; in the end cut it. Called without the lock."""
        cut_at = time.monotonic() + CUT_AFTER_SECONDS
        tries = 0
        while True:
            arrived = _cancel(connection)
            with self._changed:
                self._may_still_arrive |= not arrived
                self._is_sending = False
                self._changed.notify_all()
                pause = _AGAIN_SECONDS[min(tries, len(_AGAIN_SECONDS) - 1)]
                if self._changed.wait_for(lambda: self._connection is not connection, pause):
                    return
                if time.monotonic() > cut_at:
                    self._cut()
                    return
                self._is_sending = True
            tries += 1

    def _cut(self) -> None:
        """End the conversation from our side: whoever waits for an answer gets *connection lost* instead."""
        if self._line is not None:
            with suppress(OSError):
                self._line.shutdown(socket.SHUT_RDWR)


def _cancel(connection: psycopg.Connection[object]) -> bool:
    """Whether the server took the cancel; if not, it may still arrive some day."""
    try:
        connection.cancel_safe(timeout=SEND_SECONDS)
    except Exception:  # noqa: BLE001 - whatever it is, whoever releases the connection waits for this thread
        return False
    return True
