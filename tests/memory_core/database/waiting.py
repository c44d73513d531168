"""How database tests wait: for what the server itself tells, bounded, and never by the clock alone."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import psycopg
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from tests.database import rows

WAIT_SECONDS = 10

_SLEEPERS = "wait_event = 'PgSleep'"
_LOCKED = "wait_event_type = 'Lock'"


def backend_pid(connection: Connection) -> int:
    """The server process behind a connection."""
    pid: int = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    return pid


def terminate(engine: Engine, connection: Connection) -> None:
    """End a session from outside and wait until it is over."""
    pid = backend_pid(connection)
    with engine.connect() as outside:
        assert outside.execute(sa.select(sa.func.pg_terminate_backend(pid, 5000))).scalar()


def line_of(connection: Connection) -> psycopg.Connection[Any]:
    """The driver's connection behind SQLAlchemy's."""
    return cast("psycopg.Connection[Any]", connection.connection.dbapi_connection)


@contextmanager
def killed_before_statement(engine: Engine, number: int) -> Iterator[list[int]]:
    """Kill the session just before the engine sends statement `number` (from 0); yields the strikes so far."""
    strikes: list[int] = []
    seen = 0

    def watch(connection: Connection, *_: Any) -> None:
        nonlocal seen
        if seen == number:
            pid = line_of(connection).info.backend_pid
            address = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
            with psycopg.connect(address, autocommit=True, connect_timeout=WAIT_SECONDS) as outside:
                outside.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
            strikes.append(number)
        seen += 1

    sa.event.listen(engine, "before_cursor_execute", watch)
    try:
        yield strikes
    finally:
        sa.event.remove(engine, "before_cursor_execute", watch)


def until_locked(engine: Engine, count: int = 1) -> None:
    """Return once so many sessions of this database wait for a lock."""
    _until(engine, _LOCKED, count)


def until_sleeping(engine: Engine, count: int = 1) -> None:
    """Return once so many sessions of this database are inside pg_sleep."""
    _until(engine, _SLEEPERS, count)


def _until(engine: Engine, state: str, count: int) -> None:
    asked = sa.text(f"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND {state}")
    deadline = time.monotonic() + WAIT_SECONDS
    while rows(engine, asked)[0]["count"] < count:
        assert time.monotonic() < deadline, state
