"""Whether the deployment works, as an operator reads it: states and times, no addresses and no secrets."""

import time
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from agent.outcome import Outcome
from agent.statistics import Day, Statistics
from memory_core.database.migrations import OLDEST_WORKING, latest_revision, revision_of
from memory_core.database.probe import ProbeFailed
from memory_core.database.probe import probe as probe_database
from memory_core.errors import StorageFailed
from webapp.services import Services


@dataclass(frozen=True, slots=True)
class Reading:
    """One thing that was looked at: its name, what was found, and a line more."""

    name: str
    found: str
    note: str


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """How fast the database answered, and where its schema stands."""

    answer_ms: int
    revision: str | None


@dataclass(frozen=True, slots=True)
class ProbeView:
    """What became of a probe."""

    is_good: bool
    text: str


def read_database(connection: Connection) -> DatabaseState:
    """Ask the database one question and look at the clock."""
    asked = time.monotonic()
    revision = revision_of(connection)
    return DatabaseState(max(1, round((time.monotonic() - asked) * 1000)), revision)


def health_of(services: Services, database: DatabaseState, statistics: Statistics) -> tuple[Reading, ...]:
    """The health of the deployment as this process sees it."""
    settings, streams = services.settings, len(services.running.ids)
    return (
        Reading("Database", f"Answers in {database.answer_ms:,}\u00a0ms", _migration(database.revision)),
        Reading(
            "Memory",
            "On" if settings.memory_enabled else "Off",
            "People’s own switches hold"
            if settings.memory_enabled
            else "Nothing is read or written; what is kept stays",
        ),
        Reading("Model", _first_word(statistics), _model(services, statistics.days[-1])),
        Reading("Streams", f"{streams:,} open", "In this process, now"),
    )


def try_to_write(services: Services) -> ProbeView:
    """Insert, read, update and roll back. For a worker thread."""
    try:
        probe_database(services.engine)
    except StorageFailed as failure:
        code = f" (SQLSTATE {failure.sqlstate})" if failure.sqlstate else ""
        return ProbeView(False, f"The database did not let us write{code}. Nothing was left behind.")
    except ProbeFailed:
        return ProbeView(False, "The database gave back something else than was written. Nothing was left behind.")
    return ProbeView(True, "Written, read, changed and rolled back. Nothing was left behind.")


def _migration(revision: str | None) -> str:
    if revision is None:
        return "Never migrated"
    latest = latest_revision()
    if revision == latest:
        return f"Migration {revision}, the latest"
    if int(revision) > int(latest):
        return f"Migration {revision}, of a newer release than this one ({latest})"
    return f"Migration {revision}; this release brings {latest} and needs {OLDEST_WORKING}"


def _first_word(statistics: Statistics) -> str:
    median_ms = statistics.first_token_ms
    return "Not asked yet" if median_ms is None else f"First word in {median_ms / 1000:.1f}\u00a0s, in the middle"


def _model(services: Services, today: Day) -> str:
    """Which model is asked, and whether it fails: a wait of the last days says nothing of a model that is gone."""
    settings = services.settings
    name = "The built-in rehearsal model" if settings.uses_rehearsal_model else settings.model
    more = f" and {len(settings.fallback_models)} to fall back on" if settings.fallback_models else ""
    return f"{name}{more}; {today.outcomes[Outcome.FAILED]:,} of {today.turns:,} turns failed today"
