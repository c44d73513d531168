"""A real PostgreSQL for tests: one server a test process, one database a test, cloned from a migrated template."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa
from sqlalchemy.engine import Engine, make_url

from memory_core.database.embedded import EmbeddedServer
from memory_core.database.migrations import migrate
from memory_core.database.tables import agent_versions, agents, organizations
from memory_core.ids import new_id
from memory_core.owner import Owner

TEMPLATE = "template_remembrancer"


@dataclass(frozen=True)
class DatabaseServer:
    """A running server without durability, and a template that is migrated to the newest revision."""

    url: str

    def url_of(self, database: str) -> str:
        return make_url(self.url).set(database=database).render_as_string(hide_password=False)

    @contextmanager
    def new_database(self, template: str = TEMPLATE) -> Iterator[str]:
        """The address of a fresh copy of a template ("template0" is an empty one); it is gone afterwards."""
        name = f"test_{secrets.token_hex(8)}"
        # Copying files is the quicker way where nothing is synced to a disk.
        self.administer(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        try:
            yield self.url_of(name)
        finally:
            self.administer(f"DROP DATABASE {name} WITH (FORCE)")

    def administer(self, statement: str) -> None:
        """Run a statement that no transaction may hold, as the superuser."""
        with psycopg.connect(self.url_of("postgres"), autocommit=True, connect_timeout=5) as connection:
            connection.execute(statement.encode())


@contextmanager
def running_server(data_dir: Path) -> Iterator[DatabaseServer]:
    """A server for the tests of this process, with its template made. It dies with this process, however that ends."""
    with EmbeddedServer(data_dir, durable=False) as url:
        server = DatabaseServer(url)
        server.administer(f"CREATE DATABASE {TEMPLATE} TEMPLATE template0")
        migrate(server.url_of(TEMPLATE))
        yield server


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
