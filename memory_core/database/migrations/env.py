"""What Alembic runs: the revisions, on the connection and in the transaction that `migrate` has prepared.

The advisory lock, the timeouts and the schema are in place by then; `migrate` commits.
"""

from alembic import context

from memory_core.database.migrations import VERSION_TABLE
from memory_core.database.tables import SCHEMA, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    version_table_schema=SCHEMA,
    include_schemas=True,
)
context.run_migrations()
