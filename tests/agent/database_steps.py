"""The steps of one kind of transaction: every statement, then COMMIT. A test does something just before the n-th.

    steps = DatabaseSteps(engine, monkeypatch, "agent.turn_desk.commit_turn")
    steps.before(3, lambda connection: ...)      # in the worker's thread, which waits meanwhile
    ...
    steps.taken                                  # what was done so far: statements in short, "COMMIT"

Only what runs inside the named function counts, and only in the thread that runs it.
"""

import threading
from collections.abc import Callable
from typing import Any, cast

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from memory_core.database.transaction import Cancellation
from tests.agent.turning import WAIT_SECONDS

Act = Callable[[Connection], object]


class DatabaseSteps:
    """See the module's docstring."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.taken: list[str] = []
        self.acted = threading.Event()
        self._here = threading.local()
        self._at: int | None = None
        self._act: Act = lambda connection: None
        sa.event.listen(engine, "before_cursor_execute", self._statement)
        sa.event.listen(engine, "commit", self._commit)
        module, _, function = name.rpartition(".")
        original = getattr(__import__(module, fromlist=[function]), function)
        monkeypatch.setattr(name, self._counted(original))

    def before(self, number: int, act: Act) -> None:
        """Do this before the n-th step from now on, once."""
        self.taken.clear()
        self.acted.clear()
        self._at, self._act = number, act

    def _counted(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **named: Any) -> Any:
            self._here.counts = True
            try:
                return original(*arguments, **named)
            finally:
                self._here.counts = False

        return run

    def _statement(self, connection: Connection, cursor: Any, statement: str, *more: Any) -> None:
        self._step(connection, " ".join(statement.split())[:60])

    def _commit(self, connection: Connection) -> None:
        self._step(connection, "COMMIT")

    def _step(self, connection: Connection, what: str) -> None:
        if not getattr(self._here, "counts", False):
            return
        self.taken.append(what)
        if self._at == len(self.taken):
            self._at = None
            self._here.counts = False  # what the act itself does is no step
            try:
                self._act(connection)
            finally:
                self._here.counts = True
                self.acted.set()


class Cancellations:
    """The cancel events the desk makes, so that a test can tell when a cancel has arrived."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[Cancellation] = []
        monkeypatch.setattr("agent.turn_desk.Cancellation", self._make)

    def _make(self) -> Cancellation:
        self.made.append(Cancellation())
        return self.made[-1]

    def wait_set(self) -> None:
        """Block until the newest one is set."""
        assert self.made[-1].wait(WAIT_SECONDS), "the cancel did not arrive"


def break_line(connection: Connection) -> None:
    """End the server's session behind a connection, as a crash of either side does; returns when it is gone."""
    line = cast(psycopg.Connection[Any], connection.connection.dbapi_connection)
    with psycopg.connect(connection.engine.url.set(drivername="postgresql").render_as_string(False)) as outside:
        outside.execute("SELECT pg_terminate_backend(%s, 5000)", [line.info.backend_pid])
