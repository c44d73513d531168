"""The overview: how turns ended in the last days, as two charts and what they come to."""

from collections.abc import Mapping

from agent.outcome import MemoryOutcome, Outcome
from agent.statistics import Statistics
from webapp.operator_pages import words
from webapp.operator_pages.charts import Chart, stacked
from webapp.operator_pages.health import Reading

#: What is drawn, from the floor up. Running turns, and those that had nothing to do with memory, are in the tables.
_DRAWN = (Outcome.COMPLETED, Outcome.STOPPED, Outcome.INTERRUPTED, Outcome.FAILED)
_DRAWN_OF_MEMORY = (
    MemoryOutcome.COMMITTED,
    MemoryOutcome.PROPOSED,
    MemoryOutcome.REFUSED,
    MemoryOutcome.DISCARDED,
    MemoryOutcome.UNAVAILABLE,
)


def charts_of(statistics: Statistics) -> tuple[Chart, ...]:
    """Turns by how the answer ended, and by what became of memory."""
    return (
        stacked(
            id="turns",
            title="Turns by outcome",
            caption=_ended_well(statistics),
            days=[(day.date, _by_name(day.outcomes)) for day in statistics.days],
            drawn={outcome: words.OUTCOMES[outcome] for outcome in _DRAWN},
            listed=_by_label(words.OUTCOMES),
        ),
        stacked(
            id="memory",
            title="Turns by what became of memory",
            caption=_saved(statistics),
            days=[(day.date, _by_name(day.memory_outcomes)) for day in statistics.days],
            drawn={outcome: words.MEMORY_OUTCOMES[outcome] for outcome in _DRAWN_OF_MEMORY},
            listed=_by_label(words.MEMORY_OUTCOMES),
        ),
    )


def totals_of(statistics: Statistics) -> tuple[Reading, ...]:
    """What the days come to together."""
    return (
        Reading("Turns", f"{statistics.turns:,}", "An answer written again is a turn of its own"),
        Reading("Subjects", f"{statistics.people:,}", "Who had at least one turn"),
        Reading("Tokens read", f"{statistics.input_tokens:,}", "By the model, as it reports them"),
        Reading("Tokens written", f"{statistics.output_tokens:,}", "By the model, as it reports them"),
    )


def _ended_well(statistics: Statistics) -> str:
    if not statistics.turns:
        return "No turns in the last 14 days."
    well = statistics.outcomes[Outcome.COMPLETED] * 100 // statistics.turns
    told = words.turns(statistics.turns)
    return f"The last {len(statistics.days)} days, {told}. {well} in 100 ended well. Days are UTC."


def _saved(statistics: Statistics) -> str:
    wanted = sum(statistics.memory_outcomes[outcome] for outcome in _DRAWN_OF_MEMORY)
    if not wanted:
        return "No turn wanted to change memory in the last 14 days."
    saved = statistics.memory_outcomes[MemoryOutcome.COMMITTED]
    return f"{words.turns(wanted)} had to do with memory; {saved:,} of them saved something."


def _by_name(counts: Mapping[Outcome, int] | Mapping[MemoryOutcome, int]) -> dict[str, int]:
    return {str(outcome): count for outcome, count in counts.items()}


def _by_label(labels: Mapping[Outcome, str] | Mapping[MemoryOutcome, str]) -> dict[str, str]:
    return {str(outcome): label for outcome, label in labels.items()}
