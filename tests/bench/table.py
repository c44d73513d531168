"""The figures as a table: medians of this run, and ratios, round by round, to what they are compared with."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from tests.bench import measures
from tests.bench.measures import APPLICATION, BARE, MODEL, RELAY, WITH_DATABASE, Notes


@dataclass(frozen=True)
class Row:
    """One measure of the application, beside somebody else's.

    is_over     what counts is what comes on top of the model's own figure
    goal        the ratio to stay below; `limit` the figure to stay below
    """

    measure: str
    title: str
    unit: str
    beside: str = RELAY
    whose: str = APPLICATION
    is_over: bool = False
    goal: float | None = None
    limit: float | None = None


ROWS: Final = (
    Row(measures.FIRST_NEXT, "first words, 1 client, next message", "ms", is_over=True, goal=2.0),
    Row(measures.FIRST_NEW, "first words, 1 client, new chat", "ms", is_over=True),
    Row(measures.FIRST_BUSY, "first words, many clients", "ms", is_over=True),
    Row(measures.CPU_PACED, "CPU, 1,000 tokens, paced", "ms", goal=0.75),
    Row(measures.CPU_PACED, "  with its database", "ms", whose=WITH_DATABASE),
    Row(measures.CPU_SATURATED, "CPU, 1,000 tokens, saturated", "ms"),
    Row(measures.CPU_SATURATED, "  with its database", "ms", whose=WITH_DATABASE),
    Row(measures.SPEED, "tokens a second, saturated", "/s"),
    Row(measures.MEMORY, "memory of an open stream", "KB", limit=120.0),
    *(
        Row(measure, f"commits: {title}", "/s", beside=BARE)
        for measure, title in zip(
            measures.COMMITS,
            ("memory, 8 people", "turns, 8 people", "memory, 8 at once of 1", "turns, 8 at once of 1"),
            strict=True,
        )
    ),
)
HEAD: Final = ("", "model", "relay or bare", "application", "", "ratio", "(rounds)", "goal")
WIDTHS: Final = (37, 9, 14, 12, 4, 7, 15, 12)


def lines(notes: Notes) -> list[str]:
    """The table of one run, a line each. First words are what comes on top of the model's."""
    return [_line(HEAD), *(_line(_cells(row, notes)) for row in ROWS if (row.measure, row.whose) in notes.figures)]


def _cells(row: Row, notes: Notes) -> Sequence[str]:
    model = notes.figures.get((row.measure, MODEL), [])
    ours = _on_top(notes.figures[row.measure, row.whose], model, row)
    beside = _on_top(notes.figures[row.measure, row.beside], model, row)
    ratios = [a / b for a, b in zip(ours, beside, strict=True) if b > 0]
    ratio = median(ratios) if ratios else None
    return (
        row.title,
        _figure(median(model)) if model and row.is_over else "",
        _figure(median(beside)),
        _figure(median(ours)),
        row.unit,
        "" if ratio is None else f"{ratio:.2f}",
        f"({min(ratios):.2f}–{max(ratios):.2f})" if len(ratios) > 1 else "",
        _verdict(row, ratio, median(ours)),
    )


def _on_top(figures: Sequence[float], model: Sequence[float], row: Row) -> list[float]:
    return [a - b for a, b in zip(figures, model, strict=True)] if row.is_over else list(figures)


def _verdict(row: Row, ratio: float | None, ours: float) -> str:
    if row.limit is not None:
        return f"{'yes' if ours <= row.limit else 'no'}, ≤ {row.limit:g}"
    if row.goal is not None and ratio is not None:
        return f"{'yes' if ratio <= row.goal else 'no'}, ≤ {row.goal:g}"
    return ""


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def _line(cells: Sequence[str]) -> str:
    first, *others = (
        cell.ljust(width) if at in (0, 4, 7) else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(cells, WIDTHS, strict=True))
    )
    return " ".join((first, *others)).rstrip()
