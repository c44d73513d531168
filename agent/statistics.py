"""How turns ended, day by day, for those who run the deployment: counts and sums, never a word, never a person.

Every statement is bounded in time by the index on ``turns.started_at`` and scoped to one organization. Days are UTC.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import INTERVAL
from sqlalchemy.engine import Connection

from agent.outcome import MemoryOutcome, Outcome
from memory_core.database.tables import owners, turns

DAYS: Final = 14


@dataclass(frozen=True, slots=True)
class Day:
    """One day's turns."""

    date: date
    outcomes: Mapping[Outcome, int]
    memory_outcomes: Mapping[MemoryOutcome, int]

    @property
    def turns(self) -> int:
        return sum(self.outcomes.values())


@dataclass(frozen=True, slots=True)
class Statistics:
    """The last days, the oldest first and none left out, and what they come to together.

    ``first_token_ms`` is the median wait for an answer's first word; None where nobody has waited yet.
    """

    days: tuple[Day, ...]
    people: int
    input_tokens: int
    output_tokens: int
    first_token_ms: int | None

    @property
    def turns(self) -> int:
        return sum(day.turns for day in self.days)

    @property
    def outcomes(self) -> dict[Outcome, int]:
        return {outcome: sum(day.outcomes[outcome] for day in self.days) for outcome in Outcome}

    @property
    def memory_outcomes(self) -> dict[MemoryOutcome, int]:
        return {outcome: sum(day.memory_outcomes[outcome] for day in self.days) for outcome in MemoryOutcome}


def read_statistics(connection: Connection, organization_id: str, *, days: int = DAYS) -> Statistics:
    """The turns of the last days, today among them, on the database's clock."""
    theirs = _since(days, organization_id)
    day = sa.cast(sa.func.timezone("UTC", turns.c.started_at), sa.Date)
    counted = connection.execute(
        _of_organization(day.label("day"), turns.c.outcome, turns.c.memory_outcome, sa.func.count().label("turns"))
        .where(*theirs)
        .group_by(day, turns.c.outcome, turns.c.memory_outcome)
    ).all()
    total = connection.execute(
        _of_organization(
            sa.cast(sa.func.timezone("UTC", sa.func.now()), sa.Date).label("today"),
            sa.func.count(sa.distinct(turns.c.owner_id)).label("people"),
            sa.func.coalesce(sa.func.sum(turns.c.input_tokens), 0).label("input_tokens"),
            sa.func.coalesce(sa.func.sum(turns.c.output_tokens), 0).label("output_tokens"),
            sa.func.percentile_disc(0.5).within_group(turns.c.first_token_ms).label("first_token_ms"),
        ).where(*theirs)
    ).one()
    dates = [total.today - timedelta(days=ago) for ago in reversed(range(days))]
    found = {date: [row for row in counted if row.day == date] for date in dates}
    return Statistics(
        days=tuple(
            Day(
                date,
                {outcome: sum(row.turns for row in rows if row.outcome == outcome) for outcome in Outcome},
                {outcome: sum(row.turns for row in rows if row.memory_outcome == outcome) for outcome in MemoryOutcome},
            )
            for date, rows in found.items()
        ),
        people=total.people,
        input_tokens=int(total.input_tokens),
        output_tokens=int(total.output_tokens),
        first_token_ms=total.first_token_ms,
    )


def _of_organization(*columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    return sa.select(*columns).select_from(turns).join(owners, owners.c.id == turns.c.owner_id)


def _since(days: int, organization_id: str) -> tuple[sa.ColumnElement[bool], ...]:
    """From the first of these days on. ``now()`` stands still in a transaction, so that the index can be used."""
    first = sa.func.date_trunc("day", sa.func.now(), "UTC") - sa.cast(f"{days - 1} days", INTERVAL)
    return (owners.c.organization_id == organization_id, turns.c.started_at >= first)
