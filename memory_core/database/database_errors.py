"""What may be known of a database error: SQLSTATE, the constraint's name, and where in our code it came up.

The rest of it (statement, parameters, PostgreSQL's DETAIL, the error object itself) can hold what people said.
"""

import traceback
from types import TracebackType
from typing import Final

import psycopg
from sqlalchemy.exc import DBAPIError, OperationalError, StatementError

from memory_core.errors import CommitUnknown, DatabaseUnreachable, StorageFailed

TRANSIENT: Final = frozenset({"40001", "40P01"})  # serialization failure, deadlock
_DRIVERS: Final = ("sqlalchemy", "psycopg")


def sqlstate(error: BaseException | None) -> str | None:
    """The five characters by which PostgreSQL names an error; None where it had no chance to speak."""
    original = error.orig if isinstance(error, StatementError) else error
    return original.sqlstate if isinstance(original, psycopg.Error) else None


def is_transient(error: BaseException) -> bool:
    """Whether the whole transaction is worth running again (and nothing less is)."""
    return sqlstate(error) in TRANSIENT


def reduce_error(error: Exception, *, at_commit: bool = False) -> StorageFailed:
    """The same failure in our own words. Raise it outside the `except` block, so that nothing hangs on to `error`."""
    lost = isinstance(error, DBAPIError) and error.connection_invalidated
    original = error.orig if isinstance(error, StatementError) else error
    failure: StorageFailed
    if lost and at_commit:
        failure = CommitUnknown(sqlstate(error))
    elif not lost and _is_of_connecting(error):
        failure = DatabaseUnreachable()
    else:
        constraint = original.diag.constraint_name if isinstance(original, psycopg.Error) else None
        failure = StorageFailed(sqlstate(error), constraint)
    failure.add_note(_place_of(error.__traceback__))
    return failure


def _is_of_connecting(error: Exception) -> bool:
    """An operational error without a statement and without a word from a server we were connected to."""
    return isinstance(error, OperationalError) and error.statement is None and sqlstate(error) is None


def forget_database_errors(error: BaseException) -> None:
    """Cut what came of a database error off the history of another one: it would show values wherever it is logged."""
    link: BaseException | None = error
    while link is not None:
        earlier = link.__cause__ or link.__context__
        if isinstance(earlier, StatementError | psycopg.Error):
            link.__cause__ = link.__context__ = earlier = None
        link = earlier


def _place_of(trace: TracebackType | None) -> str:
    """Where in our own code a database error came up: a file, a function and a line, never a value."""
    place = "before the database was reached"
    for frame, line in traceback.walk_tb(trace):
        module = frame.f_globals.get("__name__", "")
        if module.split(".")[0] not in _DRIVERS:
            place = f"in {module}.{frame.f_code.co_qualname}, line {line}"
    return place
