"""A real PostgreSQL for tests: one server a test process, one database a test, cloned from a migrated template."""

import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import sqlalchemy as sa
from sqlalchemy.engine import Engine, make_url

from memory_core.database.embedded import EmbeddedServer
from memory_core.database.engine import make_engine
from memory_core.database.migrations import VERSION_TABLE, migrate
from memory_core.database.tables import SCHEMA, agent_versions, agents, organizations
from memory_core.ids import new_id
from memory_core.owner import Owner

TEMPLATE = "template_remembrancer"
#: Dead rows slow a database down in time; nothing vacuums it.
USES = 50

_END_SESSIONS = """
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
_SHAPE = """
    SELECT (SELECT md5(string_agg(concat(attrelid::regclass, attname, atttypid, attnotnull, attisdropped), ','
                                  ORDER BY attrelid, attnum))
              FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
             WHERE relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('remembrancer', 'public'))),
           (SELECT count(*) FROM pg_constraint), (SELECT count(*) FROM pg_trigger), (SELECT count(*) FROM pg_proc),
           (SELECT count(*) FROM pg_db_role_setting JOIN pg_database ON setdatabase = oid
              WHERE datname = current_database()), (SELECT sum(length(relacl::text)) FROM pg_class)
"""
_DELETE_ROWS = f"""
    SET session_replication_role = replica;
    DO $$ DECLARE name text; BEGIN
        FOR name IN SELECT tablename FROM pg_tables
                     WHERE schemaname = '{SCHEMA}' AND tablename <> '{VERSION_TABLE}' LOOP
            EXECUTE format('DELETE FROM {SCHEMA}.%I', name);
        END LOOP;
    END $$
"""


class DatabaseServer:
    """A running server without durability, a migrated template, and copies of it that are used again when clean."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._clean: list[str] = []
        self._uses: Counter[str] = Counter()

    def url_of(self, database: str) -> str:
        return make_url(self.url).set(database=database).render_as_string(hide_password=False)

    @contextmanager
    def borrowed_database(self) -> Iterator[str]:
        """The address of a migrated database without rows. Emptied afterwards, which is cheaper than making one.

        One whose tables a test has changed, or that has served often, is dropped instead.
        """
        name = self._clean.pop() if self._clean else self._create(TEMPLATE)
        try:
            yield self.url_of(name)
        finally:
            self._uses[name] += 1
            if self._uses[name] < USES and self._empty(name):
                self._clean.append(name)
            else:
                self._drop(name)

    @contextmanager
    def new_database(self, template: str = "template0") -> Iterator[str]:
        """The address of a fresh copy of a template, as a rule of an empty one; it is gone afterwards."""
        name = self._create(template)
        try:
            yield self.url_of(name)
        finally:
            self._drop(name)

    def administer(self, statement: LiteralString) -> None:
        """Run a statement that no transaction may hold, as the superuser."""
        with self._connect("postgres") as connection:
            connection.execute(statement)

    def _connect(self, database: str) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url_of(database), autocommit=True, connect_timeout=10)

    def _create(self, template: str) -> str:
        name = f"test_{secrets.token_hex(8)}"
        with self._connect("postgres") as connection:
            # Copying files is the quicker way where nothing is synced to a disk.
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY".encode())
        return name

    def _drop(self, name: str) -> None:
        with self._connect("postgres") as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    def _empty(self, name: str) -> bool:
        """End every session, delete every row; whether the tables are still those of the template."""
        with self._connect(name) as connection:
            connection.execute(_END_SESSIONS)
            if connection.execute(_SHAPE).fetchone() != self._shape:
                return False
            connection.execute(_DELETE_ROWS)
        return True

    @cached_property
    def _shape(self) -> object:
        with self._connect(TEMPLATE) as connection:
            return connection.execute(_SHAPE).fetchone()


@contextmanager
def running_server(data_dir: Path) -> Iterator[DatabaseServer]:
    """A server for the tests of this process, with its template made. It dies with this process, however that ends."""
    with EmbeddedServer(data_dir, durable=False) as url:
        server = DatabaseServer(url)
        server.administer("CREATE DATABASE template_remembrancer TEMPLATE template0")
        migrate(server.url_of(TEMPLATE))
        yield server


@contextmanager
def engine_on(url: str, pool_size: int = 8, **options: Any) -> Iterator[Engine]:
    """A pool for the length of a block."""
    engine = make_engine(url, pool_size, **options)
    try:
        yield engine
    finally:
        engine.dispose()


@dataclass(frozen=True)
class OrganizationForTests:
    """An organization and its default agent, as a deployment has them."""

    id: str
    agent_id: str
    digest_key: bytes

    def owner(self, subject: str = "ada") -> Owner:
        """Somebody this organization knows; not stored by this call."""
        return Owner(self.id, self.agent_id, subject)


def make_organization(engine: Engine, slug: str = "default") -> OrganizationForTests:
    """Store an organization with an agent, version 1."""
    made = OrganizationForTests(new_id("org"), new_id("agt"), secrets.token_bytes(32))
    with engine.begin() as connection:
        connection.execute(
            sa.insert(organizations).values(id=made.id, slug=slug, issuer="local", digest_key=made.digest_key)
        )
        connection.execute(
            sa.insert(agents).values(id=made.agent_id, organization_id=made.id, name="Remembrancer", is_default=True)
        )
        connection.execute(sa.insert(agent_versions).values(agent_id=made.agent_id, version=1))
    return made


def rows(engine: Engine, statement: sa.Executable) -> list[dict[str, Any]]:
    """What a statement finds, as committed now, seen from outside of every transaction under test."""
    with engine.connect() as connection:
        return [dict(row) for row in connection.execute(statement).mappings()]


def tables_holding(engine: Engine, text: str) -> set[str]:
    """The tables with a row in which this text stands, in whatever column."""
    found = set()
    with engine.connect() as connection:
        for table in sa.inspect(connection).get_table_names(SCHEMA):
            looked = sa.text(f'SELECT EXISTS (SELECT 1 FROM {SCHEMA}."{table}" AS t WHERE strpos(t::text, :text) > 0)')
            if connection.execute(looked, {"text": text}).scalar():
                found.add(table)
    return found
