"""What was held back over time: an area for the page, drawn from samples, and its table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from txnconsole.console.shapes import HEIGHT, WIDTH
from txnconsole.trends.reading import Point, Series

#: Rows of the table. Over a longer time a row has several points; it shows the worst.
ROWS = 30


@dataclass(frozen=True, slots=True)
class Held:
    """The most that was held back at once in the period from ``at`` on; None: no sample."""

    at: datetime
    offsets: int | None
    partitions: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldHistory:
    """``path`` is an SVG area with gaps where samples are missing; ``rows`` are the newest
    first."""

    path: str
    most: int
    most_at: datetime
    since: datetime
    until: datetime
    rows: Sequence[Held]


def held_history(series: Series) -> HeldHistory | None:
    """Draw a series; None when it has no samples at all."""
    known = [point for point in series.points if point.held_offsets is not None]
    if series.now is None or not known:
        return None
    worst = max(known, key=lambda point: point.held_offsets or 0)
    most = worst.held_offsets or 0
    since = series.now - series.length

    def x(at: datetime) -> float:
        return min(WIDTH, max(0.0, (at - since) / series.length * WIDTH))

    def area(run: Sequence[Point]) -> str:
        corners = [f"M{x(run[0].at):.1f} {HEIGHT}"]
        for point in run:
            y = HEIGHT - (point.held_offsets or 0) / max(1, most) * (HEIGHT - 4)
            corners.append(f"L{x(point.at):.1f} {y:.1f}L{x(point.at + series.width):.1f} {y:.1f}")
        return "".join([*corners, f"L{x(run[-1].at + series.width):.1f} {HEIGHT}Z"])

    return HeldHistory(
        path="".join(area(run) for run in _runs(series)),
        most=most,
        most_at=worst.at,
        since=since,
        until=series.now,
        rows=_rows(series.points),
    )


def _runs(series: Series) -> Iterator[Sequence[Point]]:
    """Split a series at its gaps: runs of points with samples."""
    run: list[Point] = []
    for point in series.points:
        if point.held_offsets is None or (run and point.at - run[-1].at > series.width):
            if run:
                yield run
            run = []
        if point.held_offsets is not None:
            run.append(point)
    if run:
        yield run


def _rows(points: Sequence[Point]) -> list[Held]:
    each = -(-len(points) // ROWS) or 1
    rows = []
    for _, group in groupby(enumerate(points), lambda one: one[0] // each):
        several = [point for _, point in group]
        worst = max(several, key=lambda point: point.held_offsets or 0)
        rows.append(Held(several[0].at, worst.held_offsets, worst.held_partitions))
    return rows[::-1]
