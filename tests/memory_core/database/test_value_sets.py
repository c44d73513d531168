"""The fixed sets of values: the enums of the code and the CHECK constraints of the database are the same."""

import re
from enum import StrEnum

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from agent.outcome import MemoryOutcome, MemoryStatus, Outcome
from memory_core.database.tables import SCHEMA, metadata
from memory_core.document import Target
from memory_core.owner import Actor, LearningMode, MemoryMode
from webapp.audit import ActorKind

#: Every column with a fixed set of values, and the enum it mirrors. `role` has none: its two values are OpenAI's.
SETS: dict[tuple[str, str], type[StrEnum] | set[str]] = {
    ("owners", "memory_mode"): MemoryMode,
    ("owners", "learning_mode"): LearningMode,
    ("agent_memory", "memory_type"): Target,
    ("memory_changes", "actor"): Actor,
    ("turns", "outcome"): Outcome,
    ("turns", "memory_outcome"): MemoryOutcome,
    ("turns", "memory_status"): MemoryStatus,
    ("messages", "role"): {"user", "assistant"},
    ("audit_log", "actor_kind"): ActorKind,
}


@pytest.mark.parametrize(("column", "values"), SETS.items(), ids=[".".join(column) for column in SETS])
def test_the_database_takes_exactly_the_values_of_the_code(
    engine: Engine, column: tuple[str, str], values: type[StrEnum] | set[str]
) -> None:
    """The constraint lists the enum's values, no more and no less, and each of them fits into its column."""
    assert checks(engine)[column] == {str(value) for value in values}
    kind = metadata.tables[f"{SCHEMA}.{column[0]}"].c[column[1]].type
    assert isinstance(kind, sa.String)
    assert max(len(str(value)) for value in values) <= (kind.length or 0)


def test_no_set_is_forgotten(engine: Engine) -> None:
    """Every CHECK of the database is listed here."""
    assert checks(engine).keys() == SETS.keys()


def checks(engine: Engine) -> dict[tuple[str, str], set[str]]:
    """What each CHECK … IN (…) allows, by table and column, as PostgreSQL tells it."""
    asked = sa.text(
        """
        SELECT relname, attname, pg_get_constraintdef(c.oid)
          FROM pg_constraint c JOIN pg_class t ON t.oid = conrelid
          JOIN pg_attribute a ON a.attrelid = conrelid AND a.attnum = conkey[1]
         WHERE contype = 'c' AND connamespace = CAST(:schema AS regnamespace)
        """
    )
    with engine.connect() as connection:
        found = connection.execute(asked, {"schema": SCHEMA}).all()
    return {(table, column): set(re.findall(r"'([^']*)'", definition)) for table, column, definition in found}
