"""Engines: which addresses they take, what they tell the server, and that a stopped server holds nobody."""

import os
import signal
import socket
import time
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy.engine import make_url

from memory_core.database.embedded import EmbeddedServer
from memory_core.database.engine import BoundedConnection, make_direct_engine, make_engine, parse_url
from memory_core.database.transaction import Limits, Unit, transaction
from memory_core.errors import DatabaseUnreachable, StorageFailed
from tests.database import engine_on
from tests.memory_core.database.processes import postmaster_pid
from tests.memory_core.database.waiting import backend_pid


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_the_usual_spellings_of_an_address_are_one(scheme: str) -> None:
    """What people copy from their provider works."""
    assert parse_url(f"{scheme}://me:secret@db.example/app").drivername == "postgresql+psycopg"


@pytest.mark.parametrize(
    "address", ["sqlite://", "mysql://me:secret@db/app", "postgresql+asyncpg://me:secret@db/x", "secret", ""]
)
def test_another_kind_of_address_is_refused_without_repeating_it(address: str) -> None:
    """It may hold a password."""
    with pytest.raises(ValueError, match="postgresql://") as refused:
        make_engine(address)
    assert "secret" not in str(refused.value)
    assert "secret" not in repr(refused.value.__cause__)


def test_a_connection_is_bounded_and_prepares_nothing(database_url: str) -> None:
    """Fit for PgBouncer, with a name for the operator, and a limit on each answer."""
    with engine_on(database_url, answer_seconds=7.0) as engine, engine.connect() as connection:
        line = cast(BoundedConnection, connection.connection.dbapi_connection)
        assert (line.answer_seconds, line.prepare_threshold) == (7.0, None)
        assert connection.exec_driver_sql("SHOW application_name").scalar() == "remembrancer"
        assert connection.exec_driver_sql("SHOW transaction_isolation").scalar() == "read committed"


def test_the_address_has_the_last_word(database_url: str) -> None:
    """What it says itself is not overwritten."""
    with engine_on(f"{database_url}&application_name=mine") as engine, engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW application_name").scalar() == "mine"


def test_the_limits_of_a_transaction_end_with_it(database_url: str) -> None:
    """A patient transaction does not make the next user of its connection patient."""
    with engine_on(database_url, 1, answer_seconds=7.0) as engine:

        def limit(unit: Unit) -> float | None:
            return cast(BoundedConnection, unit.connection.connection.dbapi_connection).answer_seconds

        assert transaction(engine, limit, limits=Limits(statement_seconds=60)) == 63.0
        with engine.connect() as connection:
            assert cast(BoundedConnection, connection.connection.dbapi_connection).answer_seconds == 7.0


def test_a_direct_engine_keeps_no_connection(database_url: str) -> None:
    """Each use connects, and leaves nothing behind."""
    engine = make_direct_engine(database_url)
    with engine.connect() as connection:
        first = backend_pid(connection)
    with engine.connect() as connection:
        assert backend_pid(connection) != first


@pytest.mark.invariant("I37")
def test_an_address_where_nobody_answers_is_given_up() -> None:
    """A listener that accepts and stays silent, as behind a broken network."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with engine_on(f"postgresql://postgres@127.0.0.1:{port}/x?connect_timeout=2") as engine:
            started = time.monotonic()
            with pytest.raises(DatabaseUnreachable):
                transaction(engine, lambda unit: pytest.fail("ran"))
            assert time.monotonic() - started < 6


@pytest.mark.slow
@pytest.mark.invariant("I37")
def test_a_stopped_server_holds_nobody(place: Path) -> None:
    """SIGSTOP: sockets stay open, the kernel takes what is sent, no answer comes. Every wait ends by itself."""
    server = EmbeddedServer(place, durable=False)
    with server as url, engine_on(f"{url}&connect_timeout=2", 2) as engine:
        stopped: list[int] = []

        def stop_everything(unit: Unit) -> None:
            stopped.extend([postmaster_pid(place), backend_pid(unit.connection)])
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            unit.connection.exec_driver_sql("SELECT 1")

        try:
            for work in (stop_everything, lambda unit: None):
                started = time.monotonic()
                with pytest.raises(StorageFailed):
                    transaction(engine, work, limits=Limits(statement_seconds=0.2))
                assert time.monotonic() - started < 8
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        assert transaction(engine, lambda unit: 7) == 7


def test_the_embedded_servers_address_is_one_for_any_client(database_url: str) -> None:
    """libpq and SQLAlchemy read the same folder out of it."""
    assert str(make_url(database_url).query["host"]).startswith("/")
    assert "%2F" in database_url
