"""Numbers as stacked bars: where each stands in a picture, and the same numbers as rows of a table. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

#: The picture's height in its own units, the width of a day, and of the bar within it.
HEIGHT: Final = 400
DAY: Final = 10
BAR: Final = 6
#: What is there is seen: no part of a bar is lower than this, and parts do not touch.
LOWEST: Final = 5
GAP: Final = 2


@dataclass(frozen=True, slots=True)
class Series:
    """One colour. ``key`` ends its class."""

    key: str
    label: str
    total: int


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a day's bar, in the picture's units."""

    key: str
    y: int
    height: int


@dataclass(frozen=True, slots=True)
class Bar:
    """A day. ``told`` is what a pointer that rests on it reads."""

    x: int
    told: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A day's numbers, in the order of the columns."""

    date: date
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart and its table. ``columns`` may name more than is drawn."""

    id: str
    title: str
    caption: str
    label: str
    top: int
    series: tuple[Series, ...]
    bars: tuple[Bar, ...]
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    totals: tuple[int, ...]

    @property
    def width(self) -> int:
        return DAY * len(self.rows)

    @property
    def height(self) -> int:
        return HEIGHT

    @property
    def bar_width(self) -> int:
        return BAR

    @property
    def day_width(self) -> int:
        return DAY


def stacked(
    *,
    id: str,
    title: str,
    caption: str,
    days: Sequence[tuple[date, Mapping[str, int]]],
    drawn: Mapping[str, str],
    listed: Mapping[str, str],
) -> Chart:
    """A chart of counts a day. ``drawn`` and ``listed`` map a count's key to its label: the bars and the columns."""
    top = nice_top(max((sum(counts[key] for key in drawn) for _, counts in days), default=0))
    totals = {key: sum(counts[key] for _, counts in days) for key in {**drawn, **listed}}
    first, last = days[0][0], days[-1][0]
    return Chart(
        id=id,
        title=title,
        caption=caption,
        label=f"{title}, a day, {_day(first)} to {_day(last)}. The figures are in the table below.",
        top=top,
        series=tuple(Series(key, label, totals[key]) for key, label in drawn.items()),
        bars=tuple(
            Bar(
                place * DAY + (DAY - BAR) // 2,
                _told(when, counts, drawn),
                _parts([(key, counts[key]) for key in drawn], top),
            )
            for place, (when, counts) in enumerate(days)
        ),
        columns=tuple(listed.values()),
        rows=tuple(Row(when, tuple(counts[key] for key in listed)) for when, counts in days),
        totals=tuple(totals[key] for key in listed),
    )


def nice_top(highest: int) -> int:
    """The end of a scale: even, round, and above the highest bar."""
    step = 1
    while True:
        for factor in (2, 3, 4, 5, 6, 8, 10):
            if factor * step >= highest and factor * step % 2 == 0:
                return factor * step
        step *= 10


def _told(when: date, counts: Mapping[str, int], labels: Mapping[str, str]) -> str:
    told = ", ".join(f"{label} {counts[key]:,}" for key, label in labels.items() if counts[key])
    return f"{_day(when)}: {told or 'none'}"


def _parts(counts: Sequence[tuple[str, int]], top: int) -> tuple[Part, ...]:
    heights = {key: max(LOWEST, round(count * HEIGHT / top)) for key, count in counts if count}
    gaps = GAP * max(len(heights) - 1, 0)
    over = sum(heights.values()) + gaps - HEIGHT
    if over > 0:
        highest = max(heights, key=lambda key: heights[key])
        heights[highest] -= over
    parts, floor = [], HEIGHT
    for key, height in heights.items():
        parts.append(Part(key, floor - height, height))
        floor -= height + GAP
    return tuple(parts)


def _day(when: date) -> str:
    return f"{when.day} {when:%B}"
