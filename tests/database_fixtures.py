"""Fixtures of a real database: `database_url` and `engine` are migrated and without rows, for each test that asks.

The server of a test process starts with the first such test. The kernel ends it with the process, so neither Ctrl-C
nor a killed worker leaves one behind.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from memory_core.database.engine import make_engine
from tests.database import DatabaseServer, OrganizationForTests, make_organization, running_server


@pytest.fixture(scope="session")
def database_server() -> Iterator[DatabaseServer]:
    """One PostgreSQL for all tests of this process."""
    with tempfile.TemporaryDirectory(prefix="remembrancer-tests-") as folder, running_server(Path(folder)) as server:
        yield server


@pytest.fixture
def database_url(database_server: DatabaseServer) -> Iterator[str]:
    """The address of a migrated database without rows, for this test alone."""
    with database_server.borrowed_database() as url:
        yield url


@pytest.fixture
def empty_database_url(database_server: DatabaseServer) -> Iterator[str]:
    """The address of a database that was never migrated."""
    with database_server.new_database() as url:
        yield url


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """A small pool on the test's database. A connection that was not given back fails the test."""
    engine = make_engine(database_url, pool_size=8)
    yield engine
    left = engine.pool.status()
    engine.dispose()
    assert "Current Checked out connections: 0" in left, left


@pytest.fixture
def organization(engine: Engine) -> OrganizationForTests:
    """An organization with its default agent, in the test's database."""
    return make_organization(engine)
