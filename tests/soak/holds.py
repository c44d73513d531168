"""Holding a transaction inside the database, at an exact moment, while its process is killed or stopped.

    with DatabaseHolds(url) as holds:           # the triggers are installed and every door is shut
        ... messages with holds.BEGIN_INSERT and the like in them ...
        holds.wait_for(BEGIN_INSERT=1, COMMIT_COMMIT=2)
        holds.release()

A message that holds one of the words makes the transaction that inserts it wait, in the INSERT or in its COMMIT (by
a deferred constraint trigger), until the door is opened. The statement timeout of the transaction still counts.
"""

import time
from types import TracebackType
from typing import Any, Final, LiteralString

import psycopg

BEGIN_INSERT: Final = "hold-begin-insert"
BEGIN_COMMIT: Final = "hold-begin-at-commit"
COMMIT_INSERT: Final = "hold-end-insert"
COMMIT_COMMIT: Final = "hold-end-at-commit"
ALL: Final = (BEGIN_INSERT, BEGIN_COMMIT, COMMIT_INSERT, COMMIT_COMMIT)

PATIENCE_SECONDS: Final = 4.0

_INSTALL: LiteralString = """
    CREATE SCHEMA IF NOT EXISTS soak;
    CREATE OR REPLACE FUNCTION soak.hold() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        said text;
    BEGIN
        IF NEW.role = TG_ARGV[0] AND position(TG_ARGV[1] IN NEW.content) > 0 THEN
            said := current_setting('lock_timeout');
            PERFORM set_config('lock_timeout', '0', true);
            PERFORM pg_advisory_xact_lock_shared(hashtext(TG_ARGV[1]));
            PERFORM set_config('lock_timeout', said, true);
        END IF;
        RETURN NEW;
    END $$;
    CREATE OR REPLACE TRIGGER soak_begin_insert BEFORE INSERT ON remembrancer.messages
        FOR EACH ROW EXECUTE FUNCTION soak.hold('user', 'hold-begin-insert');
    CREATE OR REPLACE TRIGGER soak_end_insert BEFORE INSERT ON remembrancer.messages
        FOR EACH ROW EXECUTE FUNCTION soak.hold('assistant', 'hold-end-insert');
    DROP TRIGGER IF EXISTS soak_begin_at_commit ON remembrancer.messages;
    CREATE CONSTRAINT TRIGGER soak_begin_at_commit AFTER INSERT ON remembrancer.messages
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION soak.hold('user', 'hold-begin-at-commit');
    DROP TRIGGER IF EXISTS soak_end_at_commit ON remembrancer.messages;
    CREATE CONSTRAINT TRIGGER soak_end_at_commit AFTER INSERT ON remembrancer.messages
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION soak.hold('assistant', 'hold-end-at-commit')
"""
_WAITING: LiteralString = """
    SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = hashtext(%s)::oid
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class DatabaseHolds:
    """See the module's docstring. One session of its own holds the doors shut."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: psycopg.Connection[Any] | None = None

    def __enter__(self) -> "DatabaseHolds":
        self._session = psycopg.connect(self._url, autocommit=True, connect_timeout=10)
        self._session.execute(_INSTALL)
        for word in ALL:
            self._session.execute("SELECT pg_advisory_lock(hashtext(%s))", [word])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def waiting(self, word: str) -> int:
        """How many transactions stand at this door."""
        assert self._session is not None
        found = self._session.execute(_WAITING, [word]).fetchone()
        assert found is not None
        return int(found[0])

    def wait_for(self, word: str, count: int = 1) -> bool:
        """Return once so many stand at the door; False if they do not come while others could still be waiting."""
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while self.waiting(word) < count:
            if time.monotonic() > give_up_at:
                return False
        return True

    def release(self) -> None:
        """Open every door, for good. A session that is gone holds none."""
        if self._session is not None:
            self._session.close()
            self._session = None
