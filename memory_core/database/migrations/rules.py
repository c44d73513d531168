"""What a migration may not do, as functions that its own file calls."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from memory_core.database.tables import SCHEMA
from memory_core.errors import MemoryCoreError


class MigrationRefused(MemoryCoreError):
    """The database was left at its revision."""


def drop_empty_tables(tables: Sequence[str]) -> None:
    """Drop tables, in this order, if not one of them holds a row. Raises MigrationRefused and drops nothing."""
    connection = op.get_bind()
    for table in tables:
        connection.execute(sa.text(f"LOCK TABLE {SCHEMA}.{table} IN ACCESS EXCLUSIVE MODE"))
    for table in tables:
        if connection.execute(sa.text(f"SELECT EXISTS (SELECT 1 FROM {SCHEMA}.{table})")).scalar():
            raise MigrationRefused(f"table {table} holds rows; a downgrade never drops them")
    for table in tables:
        op.drop_table(table, schema=SCHEMA)
