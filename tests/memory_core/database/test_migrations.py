"""Migrations: the tables they make are the tables the code knows, they only expand, and they drop nobody's rows."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection, Engine

from memory_core.database.migrations import (
    OLDEST_WORKING,
    VERSION_TABLE,
    MigrationRefused,
    alembic_config,
    current_revision,
    is_ready,
    migrate,
)
from memory_core.database.probe import probe
from memory_core.database.tables import SCHEMA, metadata, organizations
from memory_core.database.transaction import transaction
from memory_core.errors import DatabaseUnreachable, StorageFailed
from tests.database import DatabaseServer, engine_on, make_organization, rows
from tests.memory_core.database.waiting import WAIT_SECONDS

HEAD = "0002"

#: Everything that makes a table what it is, as PostgreSQL itself tells it. No order of columns, no names of our own.
_CATALOGUE = {
    "columns": """
        SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity::text,
               pg_get_expr(d.adbin, d.adrelid), l.collname
          FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
          LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
          LEFT JOIN pg_collation l ON l.oid = a.attcollation
         WHERE c.relnamespace = CAST(:schema AS regnamespace) AND c.relkind = 'r' AND a.attnum > 0
           AND NOT a.attisdropped AND c.relname <> :version_table
    """,
    "constraints": """
        SELECT conrelid::regclass::text, conname, contype::text, pg_get_constraintdef(oid) FROM pg_constraint
         WHERE connamespace = CAST(:schema AS regnamespace) AND conrelid <> 0
           AND conrelid::regclass::text NOT LIKE '%' || :version_table
    """,
    "indexes": """
        SELECT tablename, indexname, indexdef FROM pg_indexes
         WHERE schemaname = :schema AND tablename <> :version_table
    """,
}


def catalogue(connection: Connection) -> dict[str, set[tuple[Any, ...]]]:
    told = {}
    for name, statement in _CATALOGUE.items():
        found = connection.execute(sa.text(statement), {"schema": SCHEMA, "version_table": VERSION_TABLE})
        told[name] = {tuple(row) for row in found}
    return told


class TestTables:
    """Two tellings of the same tables."""

    def test_the_migrations_make_what_the_code_knows(self, engine: Engine, empty_database_url: str) -> None:
        """Column by column, constraint by constraint (CHECKs and cascades too), index by index."""
        with engine_on(empty_database_url) as other:
            with other.begin() as connection:
                connection.execute(sa.schema.CreateSchema(SCHEMA))
                metadata.create_all(connection)
                wanted = catalogue(connection)
            with engine.connect() as connection:
                made = catalogue(connection)
        for part, expected in wanted.items():
            assert made[part] == expected, part
        assert len(made["columns"]) > 100

    def test_alembic_finds_nothing_to_do(self, engine: Engine) -> None:
        """Its own comparison agrees."""
        options = {
            "include_schemas": True,
            "compare_server_default": True,
            "version_table": VERSION_TABLE,
            "version_table_schema": SCHEMA,
            "include_name": lambda name, kind, _: kind != "schema" or name == SCHEMA,
        }
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts=options)
            assert compare_metadata(context, metadata) == []

    def test_every_reference_that_cascades_has_an_index(self, engine: Engine) -> None:
        """Else erasing a person would read whole tables, row by row."""
        missing = sa.text(
            """
            SELECT conrelid::regclass::text, conname FROM pg_constraint AS reference
             WHERE contype = 'f' AND confdeltype = 'c' AND connamespace = CAST(:schema AS regnamespace)
               AND NOT EXISTS (SELECT 1 FROM pg_index
                                WHERE indrelid = reference.conrelid AND indkey[0] = reference.conkey[1]
                                  AND indpred IS NULL)
            """
        )
        with engine.connect() as connection:
            assert connection.execute(missing, {"schema": SCHEMA}).all() == []

    def test_nothing_is_made_outside_the_schema(self, engine: Engine) -> None:
        """Whatever else lives in the database is not ours."""
        outside = sa.text(
            "SELECT relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace "
            "WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', :schema)"
        )
        with engine.connect() as connection:
            assert connection.execute(outside, {"schema": SCHEMA}).all() == []


class TestMigrating:
    """From one revision to another."""

    def test_a_new_database_is_brought_to_the_newest_revision(self, empty_database_url: str) -> None:
        """And a second time nothing happens."""
        assert current_revision(empty_database_url) is None
        assert migrate(empty_database_url) == HEAD
        assert migrate(empty_database_url) == HEAD
        assert current_revision(empty_database_url) == HEAD

    def test_two_at_once_take_turns(self, empty_database_url: str) -> None:
        """Two processes of a new release start together: both succeed, and the tables are made once."""
        start = threading.Barrier(3)

        def run(_: int) -> str | None:
            start.wait(WAIT_SECONDS)
            return migrate(empty_database_url)

        with ThreadPoolExecutor(3) as executor:
            assert set(executor.map(run, range(3))) == {HEAD}

    def test_a_migration_that_fails_leaves_nothing(self, empty_database_url: str) -> None:
        """Everything is one transaction: a table in the way, and not even the schema is there afterwards."""
        with engine_on(empty_database_url) as engine:
            with engine.begin() as connection:
                connection.execute(sa.schema.CreateSchema(SCHEMA))
                connection.exec_driver_sql(f"CREATE TABLE {SCHEMA}.processes (id int)")
            with pytest.raises(StorageFailed) as failed:
                migrate(empty_database_url)
            assert failed.value.sqlstate == "42P07"
            with engine.connect() as connection:
                assert sa.inspect(connection).get_table_names(SCHEMA) == ["processes"]

    def test_a_role_that_may_not_create_schemas_migrates_in_one_that_was_made_for_it(
        self, database_server: DatabaseServer, empty_database_url: str
    ) -> None:
        """The schema is made only where it is missing: many operators hand out no more than that."""
        role = f"tenant_{empty_database_url.rsplit('test_')[1][:8]}"
        with engine_on(empty_database_url) as engine, engine.begin() as connection:
            connection.exec_driver_sql(f"CREATE ROLE {role} LOGIN; CREATE SCHEMA {SCHEMA} AUTHORIZATION {role}")
        assert migrate(empty_database_url.replace("postgres@", f"{role}@")) == HEAD
        with engine_on(empty_database_url) as engine, engine.begin() as connection:
            connection.exec_driver_sql(f"DROP OWNED BY {role}; DROP ROLE {role}")

    @pytest.mark.invariant("I36")
    def test_going_down_refuses_to_drop_a_table_that_holds_rows(self, engine: Engine, database_url: str) -> None:
        """One row in one table, and everything stays."""
        make_organization(engine)
        with pytest.raises(MigrationRefused) as refused:
            migrate(database_url, "base")
        assert "holds rows" in str(refused.value)
        assert current_revision(database_url) == HEAD
        assert len(rows(engine, sa.select(organizations.c.id))) == 1

    @pytest.mark.invariant("I36")
    def test_going_down_without_rows_drops_the_tables_and_up_makes_them_again(
        self, database_server: DatabaseServer
    ) -> None:
        """The way back is whole."""
        with database_server.new_database() as url, engine_on(url) as engine:
            migrate(url)
            with engine.connect() as connection:
                before = catalogue(connection)
            assert migrate(url, "base") is None
            with engine.connect() as connection:
                assert catalogue(connection) == {"columns": set(), "constraints": set(), "indexes": set()}
            assert migrate(url, HEAD) == HEAD
            with engine.connect() as connection:
                assert catalogue(connection) == before

    def test_an_unknown_revision_is_refused_in_words(self, database_url: str) -> None:
        """The known ones are named."""
        with pytest.raises(MigrationRefused) as refused:
            migrate(database_url, "9999")
        assert HEAD in str(refused.value)

    def test_a_database_that_cannot_be_reached_is_a_storage_failure(self, database_url: str) -> None:
        """In words for an operator; no driver's error, no address."""
        gone = database_url.replace("/test_", "/gone_")
        for ask in (migrate, current_revision):
            with pytest.raises(DatabaseUnreachable) as failed:
                ask(gone)
            assert "cannot be reached" in str(failed.value)
            assert "gone_" not in str(failed.value)


@pytest.mark.invariant("I36")
class TestExpansion:
    """A release works on newer revisions than it knows."""

    def test_revisions_are_one_line_of_numbers(self) -> None:
        """So that "at or past" can be told of a revision nobody here knows."""
        line = [script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()][::-1]
        assert line == [f"{number:04d}" for number in range(1, len(line) + 1)]
        assert OLDEST_WORKING in line
        assert line[-1] == HEAD

    def test_a_newer_database_is_left_as_it_is(self, engine: Engine, database_url: str) -> None:
        """`migrate` of an older release has nothing to do there, and cannot take anything back."""
        set_revision(engine, "0099")
        assert migrate(database_url) == "0099"
        with pytest.raises(MigrationRefused):
            migrate(database_url, HEAD)
        with pytest.raises(MigrationRefused):
            migrate(database_url, "base")
        set_revision(engine, HEAD)

    @pytest.mark.parametrize(("revision", "expected"), [(HEAD, True), ("0099", True), ("0000", False)])
    def test_it_is_ready_at_or_past_the_oldest_revision_that_works(
        self, engine: Engine, revision: str, expected: bool
    ) -> None:
        """Also past the newest one known."""
        set_revision(engine, revision)
        assert is_ready(engine) is expected
        set_revision(engine, HEAD)

    def test_the_tables_take_what_a_newer_release_adds(self, database_server: DatabaseServer) -> None:
        """A column with a default, a table, an index: the code of today writes and reads as before."""
        with database_server.new_database() as url, engine_on(url) as engine:
            migrate(url)
            with engine.begin() as connection:
                connection.exec_driver_sql(
                    f"ALTER TABLE {SCHEMA}.owners ADD COLUMN later text NOT NULL DEFAULT 'x';"
                    f"ALTER TABLE {SCHEMA}.agent_memory ADD COLUMN later int;"
                    f"CREATE TABLE {SCHEMA}.later (id int)"
                )
            owner = make_organization(engine).owner()
            assert transaction(engine, lambda unit: unit.locked_owner.subject, owner=owner, create_owner=True) == "ada"
            probe(engine)

    def test_a_database_without_tables_or_without_an_answer_is_not_ready(self, empty_database_url: str) -> None:
        """Readiness never raises."""
        with engine_on(empty_database_url) as engine:
            assert not is_ready(engine)
        with engine_on(empty_database_url.replace("/test_", "/gone_")) as engine:
            assert not is_ready(engine)

    def test_asking_whether_it_is_ready_leaves_nothing(self, engine: Engine) -> None:
        """It only reads."""
        before = activity(engine)
        assert is_ready(engine)
        assert activity(engine) == before


@pytest.mark.invariant("I36")
class TestProbe:
    """probe(): it writes as the program does, and takes it back."""

    def test_it_leaves_no_row_and_no_step_of_a_counter(self, engine: Engine) -> None:
        """Every table is as empty as before, every sequence where it was."""
        before = activity(engine)
        probe(engine)
        assert activity(engine) == before

    def test_it_really_writes(self, engine: Engine) -> None:
        """A role that may only read is found out."""
        with engine_on(str(engine.url), 1) as reader:
            sa.event.listen(reader, "connect", lambda connection, _: setattr(connection, "read_only", True))
            with pytest.raises(StorageFailed) as failed:
                probe(reader)
        assert failed.value.sqlstate == "25006"

    def test_without_tables_it_fails(self, empty_database_url: str) -> None:
        """With the SQLSTATE of what is missing."""
        with engine_on(empty_database_url) as engine, pytest.raises(StorageFailed) as failed:
            probe(engine)
        assert failed.value.sqlstate == "42P01"


def set_revision(engine: Engine, revision: str) -> None:
    with engine.begin() as connection:
        connection.execute(
            sa.text(f"UPDATE {SCHEMA}.{VERSION_TABLE} SET version_num = :revision"), {"revision": revision}
        )


def activity(engine: Engine) -> dict[str, Any]:
    """The rows of every table and the place of every sequence."""
    with engine.connect() as connection:
        tables = sa.inspect(connection).get_table_names(SCHEMA)
        found: dict[str, Any] = {
            name: connection.exec_driver_sql(f"SELECT count(*) FROM {SCHEMA}.{name}").scalar() for name in tables
        }
        found["sequences"] = connection.exec_driver_sql(
            "SELECT sequencename, last_value FROM pg_sequences ORDER BY 1"
        ).all()
    return found
