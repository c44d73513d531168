"""Migrations: bringing the schema `remembrancer` to a revision, and asking where it stands.

Revisions are numbered "0001", "0002", … in one line, and migrations only expand: a release works on every revision
from `OLDEST_WORKING` on, also on one it does not know yet. So an older release never moves a newer database, and
`migrate` there has nothing to do.
"""

from typing import Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import StatementError

from memory_core.database.database_errors import reduce_error
from memory_core.database.engine import make_direct_engine
from memory_core.database.migrations.rules import MigrationRefused
from memory_core.database.tables import SCHEMA
from memory_core.database.transaction import Limits, set_timeouts, transaction
from memory_core.errors import StorageFailed

__all__ = [
    "OLDEST_WORKING",
    "VERSION_TABLE",
    "MigrationRefused",
    "alembic_config",
    "current_revision",
    "is_ready",
    "latest_revision",
    "migrate",
    "revision_of",
]

VERSION_TABLE: Final = "remembrancer_schema_version"
OLDEST_WORKING: Final = "0002"
HEAD: Final = "head"
BASE: Final = "base"
#: A statement of a migration may take its time; waiting for another migration or for a lock may not.
MIGRATION_LIMITS: Final = Limits(
    lock_seconds=30.0, statement_seconds=3600.0, idle_seconds=60.0, transaction_seconds=4 * 3600.0
)
_QUICK: Final = Limits(lock_seconds=1.0, statement_seconds=2.0, tries=1)
_TURN: Final = "remembrancer migrations"


def migrate(url: str, revision: str = HEAD) -> str | None:
    """Bring the database to a revision ("head", "base" or a number); returns where it stands then (None: at base).

    One transaction: everything or nothing. Two at once take turns. Going down is explicit, and refuses to drop a table
    that holds rows. Raises MigrationRefused and StorageFailed, and the database is as it was.
    """
    config = alembic_config()
    engine = make_direct_engine(url, answer_seconds=MIGRATION_LIMITS.answer_seconds)
    failure: StorageFailed
    try:
        with engine.begin() as connection:
            _take_turn(connection)
            config.attributes["connection"] = connection
            _move(config, _revision(connection), revision)
            return _revision(connection)
    except StatementError as error:
        failure = reduce_error(error)
    raise failure


def current_revision(url: str) -> str | None:
    """The revision the database stands at; None for one that was never migrated. Raises StorageFailed."""
    return transaction(make_direct_engine(url), lambda unit: _revision(unit.connection), limits=_QUICK)


def revision_of(connection: Connection) -> str | None:
    """The revision of the database at the other end; None for one that was never migrated."""
    return _revision(connection)


def latest_revision() -> str:
    """The newest revision that this release knows."""
    return str(ScriptDirectory.from_config(alembic_config()).get_current_head())


def is_ready(engine: Engine) -> bool:
    """Whether the database answers, within a few seconds, and is at a revision this release can work with."""
    try:
        revision = transaction(engine, lambda unit: _revision(unit.connection), limits=_QUICK)
    except StorageFailed:
        return False
    return revision is not None and _number(revision) >= _number(OLDEST_WORKING)


def alembic_config() -> Config:
    """Where Alembic finds our revisions; there is no alembic.ini."""
    config = Config()
    config.set_main_option("script_location", "memory_core.database:migrations")
    return config


def _take_turn(connection: Connection) -> None:
    """Wait for another migration to finish, then make sure that the schema is there (it needs a right of its own)."""
    set_timeouts(connection, MIGRATION_LIMITS)
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtextextended(_TURN, 0))))
    exists = sa.text("SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = :name)")
    if not connection.execute(exists, {"name": SCHEMA}).scalar():
        connection.execute(sa.schema.CreateSchema(SCHEMA))


def _move(config: Config, current: str | None, wanted: str) -> None:
    known = sorted(script.revision for script in ScriptDirectory.from_config(config).walk_revisions())
    if wanted not in (HEAD, BASE, *known):
        raise MigrationRefused(f"there is no revision {wanted}; this release knows {', '.join(known)}")
    is_newer = current is not None and current not in known
    if is_newer and wanted == HEAD:
        return
    if is_newer:
        raise MigrationRefused(f"the database is at revision {current}, which only a newer release can take back")
    goal = 0 if wanted == BASE else _number(known[-1] if wanted == HEAD else wanted)
    if goal < _number(current or "0"):
        command.downgrade(config, wanted)
    else:
        command.upgrade(config, wanted)


def _revision(connection: Connection) -> str | None:
    if connection.execute(sa.select(sa.func.to_regclass(f"{SCHEMA}.{VERSION_TABLE}"))).scalar() is None:
        return None
    found: str | None = connection.execute(sa.text(f"SELECT version_num FROM {SCHEMA}.{VERSION_TABLE}")).scalar()
    return found


def _number(revision: str) -> int:
    return int(revision)
