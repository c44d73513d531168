"""Engines: how the program connects to PostgreSQL, and why no answer is waited for without an end.

PostgreSQL's own timeouts end what runs inside a living server. They end nothing when the server is stopped, or behind
a network that swallows packets; so the client keeps a limit of its own on every answer (`BoundedConnection`).
Settings of a session are never used: PgBouncer in transaction mode hands a session to anybody.
"""

import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError
from sqlalchemy.pool import NullPool

CONNECT_SECONDS: Final = 5
CHECKOUT_SECONDS: Final = 3.0
#: How long a connection waits for any one answer: more than the statement timeout of a transaction.
ANSWER_SECONDS: Final = 8.0
_WAKE_SECONDS: Final = 0.1
_TCP_UNACKNOWLEDGED_MS: Final = 8000
_DRIVER: Final = "postgresql+psycopg"

T = TypeVar("T")


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that gives up on an answer after `answer_seconds` (None: never) and is closed then.

    Closed, because what the server will still do is not known: the error counts as a lost connection.
    """

    answer_seconds: float | None = ANSWER_SECONDS

    def wait(self, gen: PQGen[T], interval: float = _WAKE_SECONDS, timeout: float | None = None) -> T:
        """Every exchange with the server passes here. Raises psycopg.OperationalError when it takes too long."""
        try:
            return super().wait(gen, interval, self.answer_seconds if timeout is None else timeout)
        except psycopg.Error:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()
            raise

    @contextmanager
    def answering_within(self, seconds: float | None) -> Iterator[None]:
        """Another limit for the length of a block."""
        usual, self.answer_seconds = self.answer_seconds, seconds
        try:
            yield
        finally:
            self.answer_seconds = usual


def make_engine(
    url: str | URL,
    pool_size: int = 10,
    *,
    isolation_level: str | None = None,
    answer_seconds: float | None = ANSWER_SECONDS,
    checkout_seconds: float = CHECKOUT_SECONDS,
) -> Engine:
    """A pool of at most `pool_size` connections to `postgresql://…`; nothing is connected yet.

    `isolation_level` None is PostgreSQL's default, READ COMMITTED. Raises ValueError for another kind of database.
    """
    options: dict[str, Any] = {} if isolation_level is None else {"isolation_level": isolation_level}
    pool = {"pool_size": pool_size, "max_overflow": 0, "pool_timeout": checkout_seconds}
    engine = _engine(url, answer_seconds, **pool, **options)
    sa.event.listen(engine, "checkout", _refuse_what_has_ended)
    return engine


def make_direct_engine(url: str | URL, *, answer_seconds: float | None = ANSWER_SECONDS) -> Engine:
    """Connections that are opened when needed and closed after use: for migrations and commands."""
    return _engine(url, answer_seconds, poolclass=NullPool)


def _refuse_what_has_ended(connection: BoundedConnection, record: object, proxy: object) -> None:
    """A pooled connection whose server has gone is not handed out; the pool takes another.

    Its socket is asked, at no cost, where a ping would ask the server before every transaction. Only if something has
    come meanwhile is it read: a word of the server, or the end.
    """
    watch = select.poll()
    try:
        watch.register(connection.pgconn.socket, select.POLLIN)
        while watch.poll(0):
            connection.pgconn.consume_input()
    except psycopg.Error:
        raise DisconnectionError from None


def _engine(url: str | URL, answer_seconds: float | None, **options: Any) -> Engine:
    address = parse_url(url)
    arguments = _connect_arguments(address)
    engine = sa.create_engine(address, hide_parameters=True, use_native_hstore=False, connect_args=arguments, **options)

    def connect(dialect: object, record: object, arguments: list[Any], parameters: dict[str, Any]) -> object:
        connection = BoundedConnection.connect(*arguments, **parameters)
        connection.answer_seconds = answer_seconds
        return connection

    sa.event.listen(engine, "do_connect", connect)
    return engine


def parse_url(url: str | URL) -> URL:
    """The address with our driver. The message of its ValueError never holds the address: it may hold a password."""
    try:
        address = make_url(url)
    except ArgumentError:
        address = URL.create("")
    if address.drivername not in ("postgresql", "postgres", _DRIVER):
        raise ValueError("a database address begins with postgresql://")
    return address.set(drivername=_DRIVER)


def _connect_arguments(url: URL) -> dict[str, Any]:
    """What libpq is told beyond the address; an address that says it itself wins."""
    arguments = {
        "connect_timeout": CONNECT_SECONDS,
        "application_name": "remembrancer",
        "keepalives_idle": 30,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": _TCP_UNACKNOWLEDGED_MS,
    }
    said = {name: value for name, value in arguments.items() if name not in url.query}
    return {"prepare_threshold": None, **said}
