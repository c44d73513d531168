"""Operators: API keys, the audit log, names of agent versions, turns that an API key began."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from memory_core.database.migrations.rules import drop_empty_tables

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

SCHEMA = "remembrancer"
TABLES = ("api_keys", "audit_log")


def upgrade() -> None:
    """Two new tables, and what other tables say more."""
    _make_api_keys()
    _make_audit_log()
    _name_versions()
    op.add_column("turns", sa.Column("api_key_id", sa.String(64), nullable=True), schema=SCHEMA)
    _index("ix_turns_api_key", "turns", ["api_key_id"], where="outcome = 'running'")
    _index("ix_turns_started", "turns", ["started_at"])
    _index("ix_conversations_created", "conversations", [sa.text("created_at DESC"), "id"])


def downgrade() -> None:
    """Take it back, if nobody has used it."""
    drop_empty_tables(TABLES[::-1])
    for index, table in (
        ("ix_conversations_created", "conversations"),
        ("ix_turns_started", "turns"),
        ("ix_turns_api_key", "turns"),
    ):
        op.drop_index(index, table_name=table, schema=SCHEMA)
    op.drop_column("turns", "api_key_id", schema=SCHEMA)
    op.drop_column("agent_versions", "name", schema=SCHEMA)


def _make_api_keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("organization_id", sa.String(64), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("secret_digest", sa.LargeBinary, nullable=False),
        sa.Column("scopes", JSONB, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=_clock()),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.ForeignKeyConstraint(
            ["organization_id"], [f"{SCHEMA}.organizations.id"], name="fk_api_keys_organization_id"
        ),
        schema=SCHEMA,
    )
    _index("ix_api_keys_organization", "api_keys", ["organization_id", "created_at"])


def _make_audit_log() -> None:
    op.create_table(
        "audit_log",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column("organization_id", sa.String(64), nullable=False),
        sa.Column("actor_kind", sa.String(16), nullable=False),
        sa.Column("actor", sa.String(255, collation="C"), nullable=True),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("agent_id", sa.String(64), nullable=True),
        sa.Column("owner_id", sa.String(64), nullable=True),
        sa.Column("detail", JSONB, nullable=False, server_default="{}"),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False, server_default=_clock()),
        sa.PrimaryKeyConstraint("id", name="pk_audit_log"),
        sa.ForeignKeyConstraint(
            ["organization_id"], [f"{SCHEMA}.organizations.id"], name="fk_audit_log_organization_id"
        ),
        sa.ForeignKeyConstraint(
            ["owner_id"], [f"{SCHEMA}.owners.id"], name="fk_audit_log_owner_id", ondelete="SET NULL"
        ),
        sa.CheckConstraint("actor_kind IN ('operator', 'key', 'command')", name=op.f("ck_audit_log_actor_kind")),
        schema=SCHEMA,
    )
    _index("ix_audit_log_organization", "audit_log", ["organization_id", sa.text("id DESC")])
    _index("ix_audit_log_owner", "audit_log", ["owner_id"])


def _name_versions() -> None:
    """A version has a name of its own; those there are take their agent's."""
    op.add_column("agent_versions", sa.Column("name", sa.Text, nullable=False, server_default=""), schema=SCHEMA)
    op.execute(
        f"UPDATE {SCHEMA}.agent_versions SET name = agents.name"
        f"  FROM {SCHEMA}.agents WHERE agents.id = agent_versions.agent_id"
    )


def _clock() -> sa.TextClause:
    return sa.text("clock_timestamp()")


def _index(name: str, table: str, columns: list[str | sa.TextClause], *, where: str | None = None) -> None:
    op.create_index(name, table, columns, schema=SCHEMA, postgresql_where=sa.text(where) if where else None)
