"""The tables of the schema ``remembrancer``, as SQLAlchemy Core sees them.

This module owns names and column types only. The statements that create them are in ``migrations/``, and a test
compares the two; the SQL that reads and writes them lives in one module per noun.

Everything a person owns hangs from one row of ``owners``, which is also the row every writer locks first.
Fixed value sets are ``StrEnum`` in the code and CHECK constraints here; a test keeps them equal.
"""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

SCHEMA = "remembrancer"

metadata = sa.MetaData(
    schema=SCHEMA,
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    },
)

_now = sa.text("clock_timestamp()")


def _id(*args: sa.schema.SchemaItem) -> sa.Column[str]:
    return sa.Column("id", sa.String(64), *args, primary_key=True)


def _reference(name: str, to: str, *, nullable: bool = False, ondelete: str | None = None) -> sa.Column[str]:
    return sa.Column(name, sa.String(64), sa.ForeignKey(f"{SCHEMA}.{to}", ondelete=ondelete), nullable=nullable)


def _time(name: str, *, nullable: bool = False, default: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable, server_default=_now if default else None)


def _one_of(column: str, *values: str) -> sa.CheckConstraint:
    listed = ", ".join(f"'{value}'" for value in values)
    return sa.CheckConstraint(f"{column} IN ({listed})", name=column)


# Who: an organization, its agents, and the people each agent knows.

organizations = sa.Table(
    "organizations",
    metadata,
    _id(),
    sa.Column("slug", sa.String(64), nullable=False, unique=True),
    # The identity provider whose subjects these are; "local" for the development provider.
    sa.Column("issuer", sa.Text, nullable=True),
    # The key of every digest of remembered words. It never leaves the database.
    sa.Column("digest_key", sa.LargeBinary, nullable=False),
    _time("created_at", default=True),
)

agents = sa.Table(
    "agents",
    metadata,
    _id(),
    _reference("organization_id", "organizations.id"),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("is_default", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("current_version", sa.Integer, nullable=False, server_default="1"),
    _time("created_at", default=True),
    sa.Index("uq_agents_default", "organization_id", unique=True, postgresql_where=sa.text("is_default")),
)

agent_versions = sa.Table(
    "agent_versions",
    metadata,
    sa.Column("agent_id", sa.String(64), sa.ForeignKey(f"{SCHEMA}.agents.id"), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    # The name of this version; `agents.name` is that of the current one.
    sa.Column("name", sa.Text, nullable=False, server_default=""),
    sa.Column("instructions", sa.Text, nullable=False, server_default=""),
    # Empty means the deployment's model.
    sa.Column("model", sa.Text, nullable=False, server_default=""),
    sa.Column("fallback_models", JSONB, nullable=False, server_default="[]"),
    # {"memory": true, …}: a tool that is switched off is absent from the request to the model.
    sa.Column("tools", JSONB, nullable=False, server_default='{"memory": true}'),
    _time("created_at", default=True),
)

owners = sa.Table(
    "owners",
    metadata,
    _id(),
    _reference("organization_id", "organizations.id"),
    _reference("agent_id", "agents.id"),
    # Compared byte by byte: a subject that differs in case is somebody else.
    sa.Column("subject", sa.String(255, collation="C"), nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("memory_mode", sa.String(8), nullable=False, server_default="auto"),
    sa.Column("learning_mode", sa.String(8), nullable=False, server_default="auto"),
    _time("first_activity_at", nullable=True),
    _time("seeded_at", nullable=True),
    sa.Column("turns_since_review", sa.Integer, nullable=False, server_default="0"),
    _time("review_watermark", nullable=True),
    _time("created_at", default=True),
    sa.UniqueConstraint("organization_id", "agent_id", "subject", name="uq_owners_key"),
    _one_of("memory_mode", "auto", "ask", "off"),
    _one_of("learning_mode", "auto", "ask", "off"),
)

# What is remembered, how it got there, and what may not come back.

agent_memory = sa.Table(
    "agent_memory",
    metadata,
    sa.Column("user_id", sa.String(128), sa.ForeignKey(f"{SCHEMA}.owners.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("memory_type", sa.String(16), primary_key=True),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("schema_version", sa.SmallInteger, nullable=False, server_default="1"),
    _time("created_at", default=True),
    _time("updated_at", default=True),
    _one_of("memory_type", "user", "memory"),
)

memory_changes = sa.Table(
    "memory_changes",
    metadata,
    _id(),
    _reference("owner_id", "owners.id", ondelete="CASCADE"),
    sa.Column("actor", sa.String(16), nullable=False),
    # No foreign key: a receipt outlives the conversation it came from.
    sa.Column("turn_id", sa.String(64), nullable=True, unique=True),
    sa.Column("conversation_id", sa.String(64), nullable=True),
    _reference("undoes_id", "memory_changes.id", nullable=True, ondelete="CASCADE"),
    sa.Column("operation_count", sa.Integer, nullable=False),
    sa.Column("added", sa.Integer, nullable=False),
    sa.Column("replaced", sa.Integer, nullable=False),
    sa.Column("removed", sa.Integer, nullable=False),
    # Sizes in code points, as the rules count.
    sa.Column("user_before", sa.Integer, nullable=False),
    sa.Column("user_after", sa.Integer, nullable=False),
    sa.Column("memory_before", sa.Integer, nullable=False),
    sa.Column("memory_after", sa.Integer, nullable=False),
    # The words, kept only as long as the change can be undone: [{"target", "before", "after"}, …].
    sa.Column("undo", JSONB(none_as_null=True), nullable=True),
    _time("undo_until", nullable=True),
    _time("undone_at", nullable=True),
    _time("created_at", default=True),
    sa.UniqueConstraint("undoes_id", name="uq_memory_changes_undoes"),
    sa.Index("ix_memory_changes_owner", "owner_id", "created_at"),
    sa.Index("ix_memory_changes_undo_until", "undo_until", postgresql_where=sa.text("undo IS NOT NULL")),
    _one_of("actor", "agent", "person", "operator", "review", "import", "undo", "approval"),
)

memory_origins = sa.Table(
    "memory_origins",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    _reference("owner_id", "owners.id", ondelete="CASCADE"),
    _reference("change_id", "memory_changes.id", ondelete="CASCADE"),
    # Keyed digests of the entry as it became and as it was before an edit; never its words.
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("previous_digest", sa.LargeBinary, nullable=True),
    sa.Index("ix_memory_origins_entry", "owner_id", "digest"),
    # Deleting a receipt or a person looks for what hangs on it: every such reference has an index.
    sa.Index("ix_memory_origins_change", "change_id"),
)

memory_tombstones = sa.Table(
    "memory_tombstones",
    metadata,
    sa.Column("owner_id", sa.String(64), sa.ForeignKey(f"{SCHEMA}.owners.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("digest", sa.LargeBinary, primary_key=True),
    _time("created_at", default=True),
)

# What was said, and how each turn ended.

conversations = sa.Table(
    "conversations",
    metadata,
    _id(),
    _reference("owner_id", "owners.id", ondelete="CASCADE"),
    sa.Column("agent_version", sa.Integer, nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    # The next free place in the log; taken under this row's lock, two places a turn.
    sa.Column("next_place", sa.Integer, nullable=False, server_default="1"),
    _time("created_at", default=True),
    _time("updated_at", default=True),
    sa.Index("ix_conversations_recent", "owner_id", sa.text("updated_at DESC"), "id"),
    sa.Index("ix_conversations_created", sa.text("created_at DESC"), "id"),
)

turns = sa.Table(
    "turns",
    metadata,
    _id(),
    _reference("owner_id", "owners.id", ondelete="CASCADE"),
    _reference("conversation_id", "conversations.id", ondelete="CASCADE"),
    # The process that runs it, for heartbeats and sweeps; the sign-in session it dies with.
    sa.Column("process_id", sa.String(64), nullable=False),
    sa.Column("session_id", sa.String(64), nullable=True),
    # The API key it was begun with, and dies with.
    sa.Column("api_key_id", sa.String(64), nullable=True),
    # SHA-256 of the idempotency key and of the message: the same key is the same turn.
    sa.Column("key_digest", sa.LargeBinary, nullable=False),
    sa.Column("body_digest", sa.LargeBinary, nullable=False),
    sa.Column("outcome", sa.String(16), nullable=False, server_default="running"),
    sa.Column("memory_outcome", sa.String(16), nullable=False, server_default="none"),
    # A refusal code or the kind of ending; never words.
    sa.Column("reason", sa.String(32), nullable=True),
    sa.Column("memory_reason", sa.String(32), nullable=True),
    # For "full": the document, its size and what was needed, as the person is told.
    sa.Column("memory_detail", JSONB(none_as_null=True), nullable=True),
    sa.Column("memory_status", sa.String(16), nullable=False, server_default="available"),
    sa.Column("finish_reason", sa.String(32), nullable=True),
    sa.Column("question_place", sa.Integer, nullable=False),
    sa.Column("answer_place", sa.Integer, nullable=False),
    sa.Column("regenerates_id", sa.String(64), nullable=True),
    sa.Column("superseded", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("agent_version", sa.Integer, nullable=False),
    sa.Column("policy_version", sa.String(32), nullable=False),
    sa.Column("model", sa.Text, nullable=True),
    # Names, codes and counts of the tool rounds: [{"tool", "outcome", "code", "operations"}, …].
    sa.Column("tool_rounds", JSONB, nullable=False, server_default="[]"),
    sa.Column("fallback", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("first_token_ms", sa.Integer, nullable=True),
    sa.Column("input_tokens", sa.Integer, nullable=True),
    sa.Column("output_tokens", sa.Integer, nullable=True),
    # When a busy model said it would take messages again.
    _time("retry_at", nullable=True),
    _time("started_at", default=True),
    _time("ended_at", nullable=True),
    sa.Index("uq_turns_running", "conversation_id", unique=True, postgresql_where=sa.text("outcome = 'running'")),
    sa.Index("uq_turns_key", "owner_id", "key_digest", unique=True),
    sa.Index("ix_turns_conversation", "conversation_id", "question_place"),
    sa.Index("ix_turns_session", "session_id", postgresql_where=sa.text("outcome = 'running'")),
    sa.Index("ix_turns_api_key", "api_key_id", postgresql_where=sa.text("outcome = 'running'")),
    # How turns ended, day by day, for operators.
    sa.Index("ix_turns_started", "started_at"),
    sa.Index("ix_turns_process", "process_id", postgresql_where=sa.text("outcome = 'running'")),
    _one_of("outcome", "running", "completed", "stopped", "interrupted", "failed"),
    _one_of(
        "memory_outcome",
        "none",
        "unchanged",
        "committed",
        "proposed",
        "refused",
        "discarded",
        "unavailable",
        "off",
    ),
    _one_of("memory_status", "available", "unavailable", "off"),
)

messages = sa.Table(
    "messages",
    metadata,
    _id(),
    _reference("owner_id", "owners.id", ondelete="CASCADE"),
    _reference("conversation_id", "conversations.id", ondelete="CASCADE"),
    _reference("turn_id", "turns.id", ondelete="CASCADE"),
    sa.Column("place", sa.Integer, nullable=False),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("content", sa.Text, nullable=False),
    # False for what regenerating has set aside: kept to be read, out of the prompt.
    sa.Column("active", sa.Boolean, nullable=False, server_default=sa.true()),
    _time("created_at", default=True),
    sa.UniqueConstraint("conversation_id", "place", name="uq_messages_place"),
    sa.Index("ix_messages_owner", "owner_id"),
    sa.Index("ix_messages_turn", "turn_id"),
    _one_of("role", "user", "assistant"),
)

processes = sa.Table(
    "processes",
    metadata,
    _id(),
    # The turns it really runs, by its own word at its last beat, on the database's clock.
    sa.Column("turn_ids", JSONB, nullable=False, server_default="[]"),
    _time("started_at", default=True),
    _time("beat_at", default=True),
)

# Who is signed in.

web_sessions = sa.Table(
    "web_sessions",
    metadata,
    # SHA-256 (hex) of the opaque id in the cookie.
    _id(),
    _reference("organization_id", "organizations.id"),
    sa.Column("subject", sa.String(255, collation="C"), nullable=False),
    # For display only; both may be missing.
    sa.Column("name", sa.Text, nullable=True),
    sa.Column("email", sa.Text, nullable=True),
    # Handed back to the identity provider at sign-out.
    sa.Column("id_token", sa.Text, nullable=True),
    sa.Column("claims", JSONB, nullable=False, server_default="{}"),
    sa.Column("csrf_token", sa.String(64), nullable=False),
    _time("created_at", default=True),
    _time("seen_at", default=True),
    _time("expires_at"),
    _time("revoked_at", nullable=True),
    sa.Index("ix_web_sessions_subject", "organization_id", "subject"),
)

sign_in_attempts = sa.Table(
    "sign_in_attempts",
    metadata,
    # SHA-256 (hex) of the OIDC state.
    _id(),
    # SHA-256 (hex) of the cookie that the same browser must bring back.
    sa.Column("browser", sa.String(64), nullable=False),
    sa.Column("nonce", sa.String(128), nullable=False),
    sa.Column("code_verifier", sa.String(128), nullable=False),
    sa.Column("next_path", sa.Text, nullable=False),
    _time("created_at", default=True),
    _time("expires_at"),
    sa.Index("ix_sign_in_attempts_expires", "expires_at"),
)

# Who works with the deployment, and what they did.

api_keys = sa.Table(
    "api_keys",
    metadata,
    # Public: it stands in the key itself, between "rk_" and the secret.
    _id(),
    _reference("organization_id", "organizations.id"),
    sa.Column("name", sa.Text, nullable=False),
    # SHA-256 of the secret, which has 256 random bits and is stored nowhere.
    sa.Column("secret_digest", sa.LargeBinary, nullable=False),
    sa.Column("scopes", JSONB, nullable=False),
    _time("created_at", default=True),
    _time("expires_at", nullable=True),
    _time("used_at", nullable=True),
    _time("revoked_at", nullable=True),
    sa.Index("ix_api_keys_organization", "organization_id", "created_at"),
)

audit_log = sa.Table(
    "audit_log",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    _reference("organization_id", "organizations.id"),
    # Who: an operator's subject, an API key's id, or the command line.
    sa.Column("actor_kind", sa.String(16), nullable=False),
    sa.Column("actor", sa.String(255, collation="C"), nullable=True),
    sa.Column("action", sa.String(32), nullable=False),
    # On what. A record outlives the person it was about, and then names nobody.
    sa.Column("agent_id", sa.String(64), nullable=True),
    _reference("owner_id", "owners.id", nullable=True, ondelete="SET NULL"),
    # Numbers, ids and codes; never words.
    sa.Column("detail", JSONB, nullable=False, server_default="{}"),
    _time("at", default=True),
    sa.Index("ix_audit_log_organization", "organization_id", sa.text("id DESC")),
    sa.Index("ix_audit_log_owner", "owner_id"),
    _one_of("actor_kind", "operator", "key", "command"),
)
