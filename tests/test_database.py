"""The databases of the tests themselves: what one test leaves behind, no other test finds."""

import psycopg
import pytest
import sqlalchemy as sa

from memory_core.database.tables import SCHEMA, organizations
from tests.database import DatabaseServer, engine_on, make_organization, rows


def test_a_database_is_empty_when_it_is_lent_again(database_server: DatabaseServer) -> None:
    """Rows are gone, and so are sessions that a test forgot."""
    with database_server.borrowed_database() as url, engine_on(url) as engine:
        make_organization(engine)
        forgotten = psycopg.connect(url)
    with database_server.borrowed_database() as again, engine_on(again) as engine:
        assert again == url
        assert rows(engine, sa.select(organizations.c.id)) == []
    with pytest.raises(psycopg.OperationalError):
        forgotten.execute("SELECT 1")
    forgotten.close()


@pytest.mark.parametrize(
    "change",
    [
        f"ALTER TABLE {SCHEMA}.owners ADD COLUMN other text",
        f"ALTER TABLE {SCHEMA}.owners DROP CONSTRAINT ck_owners_memory_mode",
        "CREATE TABLE public.other (id int)",
        f"REVOKE ALL ON {SCHEMA}.owners FROM CURRENT_USER",
        "ALTER DATABASE {name} SET lock_timeout = '1s'",
    ],
)
def test_a_database_with_other_tables_is_not_lent_again(database_server: DatabaseServer, change: str) -> None:
    """A test may break what it likes."""
    with database_server.borrowed_database() as url, engine_on(url) as engine, engine.begin() as connection:
        connection.exec_driver_sql(change.format(name=engine.url.database))
    with database_server.borrowed_database() as again:
        assert again != url
