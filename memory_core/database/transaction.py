"""transaction(): the one way anything is written, and how it ends.

    1  the cancel event is read; BEGIN, with timeouts of its own
    2  the owner's row is locked, before anything of theirs is read
    3  the work, which reads the event again before it persists (`Unit.checkpoint`)
    4  the cancel event is read for the last time; from here on a cancel comes too late; COMMIT

Exactly 40001 and 40P01 run the whole of it again. Other database errors are reduced to SQLSTATE and constraint: no
statement, parameter or DETAIL survives in any attribute, cause or context. Errors of the work pass unchanged.
"""

import itertools
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar, cast

import psycopg
import sqlalchemy as sa
from psycopg.pq import TransactionStatus
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import StatementError
from sqlalchemy.exc import TimeoutError as CheckoutTimeout

from memory_core.database.cancellation import Cancellation
from memory_core.database.database_errors import TRANSIENT, forget_database_errors, is_transient, reduce_error, sqlstate
from memory_core.database.engine import BoundedConnection
from memory_core.database.owner_row import LockedOwner, lock_owner
from memory_core.database.rows import Record
from memory_core.errors import StorageFailed, TransactionCancelled
from memory_core.owner import Owner

__all__ = [
    "DEFAULT_LIMITS",
    "Cancellation",
    "Limits",
    "LockedOwner",
    "Unit",
    "is_transient",
    "read_alone",
    "sqlstate",
    "transaction",
]

FAILED_TRANSACTION: Final = "25P02"
#: PostgreSQL 17, as servers number themselves.
TRANSACTION_TIMEOUT_SINCE: Final = 170_000

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """What a transaction may wait for, in seconds, and how often it may start again.

    `transaction_seconds` is for a line that breaks in the middle of a message: to the server that is neither a
    statement nor idle, and it would hold the owner's row for as long as it believes in the connection.
    """

    lock_seconds: float = 3.0
    statement_seconds: float = 5.0
    idle_seconds: float = 15.0
    transaction_seconds: float = 20.0
    tries: int = 5
    retry_seconds: float = 3.0

    @property
    def answer_seconds(self) -> float:
        """How long the client waits for an answer: the server ends a statement before that, if it lives."""
        return self.statement_seconds + 3.0


DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True)
class Unit:
    """What the work of one transaction is given. `tries` counts from 1."""

    connection: Connection
    owner: LockedOwner | None
    tries: int
    cancellation: Cancellation

    @property
    def locked_owner(self) -> LockedOwner:
        """The owner, in a transaction that was asked to lock one."""
        if self.owner is None:
            raise RuntimeError("this transaction locks no owner")
        return self.owner

    def checkpoint(self) -> None:
        """Called before anything is persisted. Raises TransactionCancelled."""
        self.cancellation.raise_if_set()


def transaction(
    engine: Engine,
    work: Callable[[Unit], T],
    *,
    owner: Owner | None = None,
    create_owner: bool = False,
    cancel: Cancellation | None = None,
    erase: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> T:
    """Run the work in one transaction, its owner locked first, and give what it returned once that is committed.

    `erase` takes the lock that also keeps new references to the owner away. The work may run several times: it must
    change nothing but the database. Raises OwnerGone, TransactionCancelled, StorageFailed, and whatever the work
    raises: then nothing is stored. CommitUnknown alone leaves that open.
    """
    cancellation = cancel if cancel is not None else Cancellation()
    give_up_at = time.monotonic() + limits.retry_seconds
    for tries in itertools.count(1):
        attempt = _Attempt(engine, work, owner, create_owner, erase, cancellation, limits, tries)
        failure = attempt.run()
        if failure is None:
            return attempt.value
        pause = min(0.01 * 2**tries, 0.2) * random.uniform(0.5, 1.5)
        if failure.sqlstate not in TRANSIENT or tries >= limits.tries or time.monotonic() + pause > give_up_at:
            raise failure
        if cancellation.wait(pause):
            raise TransactionCancelled
    raise AssertionError("counting does not end")


def read_alone(engine: Engine, statement: sa.Executable, given: Mapping[str, object]) -> Sequence[Record]:
    """The rows of one statement that is a transaction of its own: half the round trips. For a read that waits for no
    lock; our own limit on the answer bounds it. Raises StorageFailed.
    """
    failure: StorageFailed
    try:
        with engine.connect() as connection:
            return connection.execution_options(isolation_level="AUTOCOMMIT").execute(statement, given).all()
    except (StatementError, CheckoutTimeout, psycopg.Error) as error:
        failure = reduce_error(error)
    raise failure


@dataclass(repr=False)
class _Attempt(Generic[T]):
    """One try of a transaction. `value` holds the work's result after `run` has returned None."""

    engine: Engine
    work: Callable[[Unit], T]
    owner: Owner | None
    create_owner: bool
    erase: bool
    cancellation: Cancellation
    limits: Limits
    tries: int
    value: T = field(init=False)
    _committing: bool = field(init=False, default=False)

    def run(self) -> StorageFailed | None:
        """None when committed; a database error, reduced. Errors of other kinds are raised."""
        self.cancellation.raise_if_set()
        failure: StorageFailed
        try:
            with self.engine.connect() as connection:
                self._run_on(connection)
            return None
        except (StatementError, CheckoutTimeout, psycopg.Error) as error:
            failure = reduce_error(error, at_commit=self._committing)
        except BaseException as error:
            forget_database_errors(error)
            raise
        if self.cancellation.is_set() and not self._committing:
            raise TransactionCancelled
        return failure

    def _run_on(self, connection: Connection) -> None:
        line = cast(BoundedConnection, connection.connection.dbapi_connection)
        with line.answering_within(self.limits.answer_seconds):
            self.cancellation.bind(line)
            try:
                self._work_on(connection)
                self.cancellation.raise_if_set()
            finally:
                # Only now may COMMIT or ROLLBACK follow: no cancel of ours can meet them, or whoever comes after.
                if not self.cancellation.release():
                    connection.invalidate()
            self._commit(connection, line)

    def _work_on(self, connection: Connection) -> None:
        set_timeouts(connection, self.limits)
        locked = None
        if self.owner is not None:
            locked = lock_owner(connection, self.owner, create=self.create_owner, erase=self.erase)
        self.value = self.work(Unit(connection, locked, self.tries, self.cancellation))

    def _commit(self, connection: Connection, line: BoundedConnection) -> None:
        self.cancellation.raise_if_set()
        if line.info.transaction_status == TransactionStatus.INERROR:
            # The work swallowed an error. PostgreSQL would answer COMMIT with a friendly ROLLBACK.
            raise psycopg.errors.lookup(FAILED_TRANSACTION)
        self._committing = True
        connection.commit()


def set_timeouts(connection: Connection, limits: Limits) -> None:
    """Timeouts of this transaction alone, in one round trip. Older servers cannot bound it as a whole."""
    bounds = {
        "lock_timeout": limits.lock_seconds,
        "statement_timeout": limits.statement_seconds,
        "idle_in_transaction_session_timeout": limits.idle_seconds,
    }
    line = cast(psycopg.Connection[object], connection.connection.dbapi_connection)
    if line.info.server_version >= TRANSACTION_TIMEOUT_SINCE:
        bounds["transaction_timeout"] = limits.transaction_seconds
    calls = ", ".join(f"set_config('{name}', '{round(seconds * 1000)}ms', true)" for name, seconds in bounds.items())
    connection.exec_driver_sql(f"SELECT {calls}")
