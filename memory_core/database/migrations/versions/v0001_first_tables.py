"""The first tables: organizations, agents, owners, memory, conversations, turns, processes, sign-in."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from memory_core.database.migrations.rules import drop_empty_tables

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

SCHEMA = "remembrancer"
#: In the order in which they are made; dropped the other way round.
TABLES = (
    "organizations",
    "agents",
    "agent_versions",
    "owners",
    "agent_memory",
    "memory_changes",
    "memory_origins",
    "memory_tombstones",
    "conversations",
    "turns",
    "messages",
    "processes",
    "web_sessions",
    "sign_in_attempts",
)


def upgrade() -> None:
    """Make everything."""
    _make_organizations()
    _make_owners()
    _make_memory()
    _make_conversations()
    _make_sign_in()


def downgrade() -> None:
    """Drop everything, if it is empty."""
    drop_empty_tables(TABLES[::-1])


def _make_organizations() -> None:
    op.create_table(
        "organizations",
        _id(),
        sa.Column("slug", sa.String(64), nullable=False),
        sa.Column("issuer", sa.Text, nullable=True),
        sa.Column("digest_key", sa.LargeBinary, nullable=False),
        _now("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_organizations"),
        sa.UniqueConstraint("slug", name="uq_organizations_slug"),
        schema=SCHEMA,
    )
    op.create_table(
        "agents",
        _id(),
        _id("organization_id"),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("is_default", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("current_version", sa.Integer, nullable=False, server_default="1"),
        _now("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_agents"),
        _refers("agents", "organization_id", "organizations"),
        schema=SCHEMA,
    )
    _index("uq_agents_default", "agents", ["organization_id"], unique=True, where="is_default")
    op.create_table(
        "agent_versions",
        _id("agent_id"),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("instructions", sa.Text, nullable=False, server_default=""),
        sa.Column("model", sa.Text, nullable=False, server_default=""),
        sa.Column("fallback_models", JSONB, nullable=False, server_default="[]"),
        sa.Column("tools", JSONB, nullable=False, server_default='{"memory": true}'),
        _now("created_at"),
        sa.PrimaryKeyConstraint("agent_id", "version", name="pk_agent_versions"),
        _refers("agent_versions", "agent_id", "agents"),
        schema=SCHEMA,
    )


def _make_owners() -> None:
    op.create_table(
        "owners",
        _id(),
        _id("organization_id"),
        _id("agent_id"),
        sa.Column("subject", sa.String(255, collation="C"), nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("memory_mode", sa.String(8), nullable=False, server_default="auto"),
        sa.Column("learning_mode", sa.String(8), nullable=False, server_default="auto"),
        _time("first_activity_at"),
        _time("seeded_at"),
        sa.Column("turns_since_review", sa.Integer, nullable=False, server_default="0"),
        _time("review_watermark"),
        _now("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_owners"),
        _refers("owners", "organization_id", "organizations"),
        _refers("owners", "agent_id", "agents"),
        sa.UniqueConstraint("organization_id", "agent_id", "subject", name="uq_owners_key"),
        sa.CheckConstraint("memory_mode IN ('auto', 'ask', 'off')", name=op.f("ck_owners_memory_mode")),
        sa.CheckConstraint("learning_mode IN ('auto', 'ask', 'off')", name=op.f("ck_owners_learning_mode")),
        schema=SCHEMA,
    )


def _make_memory() -> None:
    op.create_table(
        "agent_memory",
        sa.Column("user_id", sa.String(128), nullable=False),
        sa.Column("memory_type", sa.String(16), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("schema_version", sa.SmallInteger, nullable=False, server_default="1"),
        _now("created_at"),
        _now("updated_at"),
        sa.PrimaryKeyConstraint("user_id", "memory_type", name="pk_agent_memory"),
        _belongs("agent_memory", "user_id", "owners"),
        sa.CheckConstraint("memory_type IN ('user', 'memory')", name=op.f("ck_agent_memory_memory_type")),
        schema=SCHEMA,
    )
    op.create_table(
        "memory_changes",
        _id(),
        _id("owner_id"),
        sa.Column("actor", sa.String(16), nullable=False),
        _id("turn_id", nullable=True),
        _id("conversation_id", nullable=True),
        _id("undoes_id", nullable=True),
        sa.Column("operation_count", sa.Integer, nullable=False),
        sa.Column("added", sa.Integer, nullable=False),
        sa.Column("replaced", sa.Integer, nullable=False),
        sa.Column("removed", sa.Integer, nullable=False),
        sa.Column("user_before", sa.Integer, nullable=False),
        sa.Column("user_after", sa.Integer, nullable=False),
        sa.Column("memory_before", sa.Integer, nullable=False),
        sa.Column("memory_after", sa.Integer, nullable=False),
        sa.Column("undo", JSONB, nullable=True),
        _time("undo_until"),
        _time("undone_at"),
        _now("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_memory_changes"),
        _belongs("memory_changes", "owner_id", "owners"),
        _belongs("memory_changes", "undoes_id", "memory_changes"),
        sa.UniqueConstraint("turn_id", name="uq_memory_changes_turn_id"),
        sa.UniqueConstraint("undoes_id", name="uq_memory_changes_undoes"),
        sa.CheckConstraint(
            "actor IN ('agent', 'person', 'operator', 'review', 'import', 'undo', 'approval')",
            name=op.f("ck_memory_changes_actor"),
        ),
        schema=SCHEMA,
    )
    _index("ix_memory_changes_owner", "memory_changes", ["owner_id", "created_at"])
    _index("ix_memory_changes_undo_until", "memory_changes", ["undo_until"], where="undo IS NOT NULL")
    op.create_table(
        "memory_origins",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), nullable=False),
        _id("owner_id"),
        _id("change_id"),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("previous_digest", sa.LargeBinary, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_memory_origins"),
        _belongs("memory_origins", "owner_id", "owners"),
        _belongs("memory_origins", "change_id", "memory_changes"),
        schema=SCHEMA,
    )
    _index("ix_memory_origins_entry", "memory_origins", ["owner_id", "digest"])
    _index("ix_memory_origins_change", "memory_origins", ["change_id"])
    op.create_table(
        "memory_tombstones",
        _id("owner_id"),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        _now("created_at"),
        sa.PrimaryKeyConstraint("owner_id", "digest", name="pk_memory_tombstones"),
        _belongs("memory_tombstones", "owner_id", "owners"),
        schema=SCHEMA,
    )


def _make_conversations() -> None:
    op.create_table(
        "conversations",
        _id(),
        _id("owner_id"),
        sa.Column("agent_version", sa.Integer, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("next_place", sa.Integer, nullable=False, server_default="1"),
        _now("created_at"),
        _now("updated_at"),
        sa.PrimaryKeyConstraint("id", name="pk_conversations"),
        _belongs("conversations", "owner_id", "owners"),
        schema=SCHEMA,
    )
    _index("ix_conversations_recent", "conversations", ["owner_id", sa.text("updated_at DESC"), "id"])
    op.create_table(
        "turns",
        _id(),
        _id("owner_id"),
        _id("conversation_id"),
        _id("process_id"),
        _id("session_id", nullable=True),
        sa.Column("key_digest", sa.LargeBinary, nullable=False),
        sa.Column("body_digest", sa.LargeBinary, nullable=False),
        sa.Column("outcome", sa.String(16), nullable=False, server_default="running"),
        sa.Column("memory_outcome", sa.String(16), nullable=False, server_default="none"),
        sa.Column("reason", sa.String(32), nullable=True),
        sa.Column("memory_reason", sa.String(32), nullable=True),
        sa.Column("memory_detail", JSONB, nullable=True),
        sa.Column("memory_status", sa.String(16), nullable=False, server_default="available"),
        sa.Column("finish_reason", sa.String(32), nullable=True),
        sa.Column("question_place", sa.Integer, nullable=False),
        sa.Column("answer_place", sa.Integer, nullable=False),
        _id("regenerates_id", nullable=True),
        sa.Column("superseded", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("agent_version", sa.Integer, nullable=False),
        sa.Column("policy_version", sa.String(32), nullable=False),
        sa.Column("model", sa.Text, nullable=True),
        sa.Column("tool_rounds", JSONB, nullable=False, server_default="[]"),
        sa.Column("fallback", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("first_token_ms", sa.Integer, nullable=True),
        sa.Column("input_tokens", sa.Integer, nullable=True),
        sa.Column("output_tokens", sa.Integer, nullable=True),
        _time("retry_at"),
        _now("started_at"),
        _time("ended_at"),
        sa.PrimaryKeyConstraint("id", name="pk_turns"),
        _belongs("turns", "owner_id", "owners"),
        _belongs("turns", "conversation_id", "conversations"),
        sa.CheckConstraint(
            "outcome IN ('running', 'completed', 'stopped', 'interrupted', 'failed')", name=op.f("ck_turns_outcome")
        ),
        sa.CheckConstraint(
            "memory_outcome IN ('none', 'unchanged', 'committed', 'proposed', 'refused', 'discarded', "
            "'unavailable', 'off')",
            name=op.f("ck_turns_memory_outcome"),
        ),
        sa.CheckConstraint("memory_status IN ('available', 'unavailable', 'off')", name=op.f("ck_turns_memory_status")),
        schema=SCHEMA,
    )
    _index("uq_turns_running", "turns", ["conversation_id"], unique=True, where="outcome = 'running'")
    _index("uq_turns_key", "turns", ["owner_id", "key_digest"], unique=True)
    _index("ix_turns_conversation", "turns", ["conversation_id", "question_place"])
    _index("ix_turns_session", "turns", ["session_id"], where="outcome = 'running'")
    _index("ix_turns_process", "turns", ["process_id"], where="outcome = 'running'")
    op.create_table(
        "messages",
        _id(),
        _id("owner_id"),
        _id("conversation_id"),
        _id("turn_id"),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("active", sa.Boolean, nullable=False, server_default=sa.true()),
        _now("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_messages"),
        _belongs("messages", "owner_id", "owners"),
        _belongs("messages", "conversation_id", "conversations"),
        _belongs("messages", "turn_id", "turns"),
        sa.UniqueConstraint("conversation_id", "place", name="uq_messages_place"),
        sa.CheckConstraint("role IN ('user', 'assistant')", name=op.f("ck_messages_role")),
        schema=SCHEMA,
    )
    _index("ix_messages_owner", "messages", ["owner_id"])
    _index("ix_messages_turn", "messages", ["turn_id"])


def _make_sign_in() -> None:
    op.create_table(
        "processes",
        _id(),
        sa.Column("turn_ids", JSONB, nullable=False, server_default="[]"),
        _now("started_at"),
        _now("beat_at"),
        sa.PrimaryKeyConstraint("id", name="pk_processes"),
        schema=SCHEMA,
    )
    op.create_table(
        "web_sessions",
        _id(),
        _id("organization_id"),
        sa.Column("subject", sa.String(255, collation="C"), nullable=False),
        sa.Column("name", sa.Text, nullable=True),
        sa.Column("email", sa.Text, nullable=True),
        sa.Column("id_token", sa.Text, nullable=True),
        sa.Column("claims", JSONB, nullable=False, server_default="{}"),
        _id("csrf_token"),
        _now("created_at"),
        _now("seen_at"),
        _time("expires_at", nullable=False),
        _time("revoked_at"),
        sa.PrimaryKeyConstraint("id", name="pk_web_sessions"),
        _refers("web_sessions", "organization_id", "organizations"),
        schema=SCHEMA,
    )
    _index("ix_web_sessions_subject", "web_sessions", ["organization_id", "subject"])
    op.create_table(
        "sign_in_attempts",
        _id(),
        _id("browser"),
        sa.Column("nonce", sa.String(128), nullable=False),
        sa.Column("code_verifier", sa.String(128), nullable=False),
        sa.Column("next_path", sa.Text, nullable=False),
        _now("created_at"),
        _time("expires_at", nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sign_in_attempts"),
        schema=SCHEMA,
    )
    _index("ix_sign_in_attempts_expires", "sign_in_attempts", ["expires_at"])


def _id(name: str = "id", *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String(64), nullable=nullable)


def _time(name: str, *, nullable: bool = True) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _now(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False, server_default=sa.text("clock_timestamp()"))


def _refers(table: str, column: str, to: str, *, ondelete: str | None = None) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{SCHEMA}.{to}.id"], name=f"fk_{table}_{column}", ondelete=ondelete)


def _belongs(table: str, column: str, to: str) -> sa.ForeignKeyConstraint:
    """A reference whose row goes with what it refers to."""
    return _refers(table, column, to, ondelete="CASCADE")


def _index(
    name: str, table: str, columns: Sequence[str | sa.TextClause], *, unique: bool = False, where: str | None = None
) -> None:
    condition = None if where is None else sa.text(where)
    op.create_index(name, table, columns, unique=unique, schema=SCHEMA, postgresql_where=condition)
