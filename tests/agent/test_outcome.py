"""The words for how a turn ended: the same in the code and in the database."""

import re
from enum import StrEnum

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from agent.outcome import CUT_SHORT, DISCARDED_BECAUSE, MemoryEnding, MemoryOutcome, MemoryStatus, Outcome, Reason
from memory_core.database.tables import turns
from memory_core.errors import RefusalCode
from tests.database import rows


@pytest.mark.parametrize(
    ("column", "words"), [("outcome", Outcome), ("memory_outcome", MemoryOutcome), ("memory_status", MemoryStatus)]
)
def test_the_enum_and_the_check_agree(engine: Engine, column: str, words: type[StrEnum]) -> None:
    """Neither the code nor the migrated database knows a value that the other does not."""
    asked = sa.text(
        "SELECT pg_get_constraintdef(oid) AS rule FROM pg_constraint WHERE conname = :name AND contype = 'c'"
    )
    [row] = rows(engine, asked.bindparams(name=f"ck_turns_{column}"))
    assert set(re.findall(r"'([a-z_]+)'", row["rule"])) == set(words)


def test_every_reason_fits_its_column() -> None:
    """A code that the database refuses would keep an ending from being recorded."""
    for column, words in (("reason", Reason), ("memory_reason", RefusalCode)):
        kind = turns.c[column].type
        assert isinstance(kind, sa.String)
        assert kind.length is not None
        assert max(map(len, words)) <= kind.length


@pytest.mark.parametrize("outcome", [Outcome.STOPPED, Outcome.INTERRUPTED, Outcome.FAILED])
@pytest.mark.parametrize("reason", [None, *Reason])
def test_what_was_let_go_is_reported_by_its_cause(outcome: Outcome, reason: Reason | None) -> None:
    """Storage and an answer that came to a halt too early are told apart; the rest is named by the turn's outcome."""
    memory = MemoryEnding.discarded(outcome, reason)

    assert memory.outcome is MemoryOutcome.DISCARDED
    if reason is Reason.STORAGE:
        assert memory.reason is RefusalCode.STORAGE
    elif reason in CUT_SHORT:
        assert memory.reason is RefusalCode.CUT_OFF
    else:
        assert memory.reason is DISCARDED_BECAUSE[outcome]
