"""Small drawings as coordinates for inline SVG, whose attributes the content security policy
allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from engine.model.partition import PositionSample

#: The chart's drawing area, which the page stretches.
WIDTH, HEIGHT = 1000, 200
#: The shortest time that a chart covers.
_LEAST = timedelta(minutes=1)


def sparkline(values: Sequence[float], *, width: int = 120, height: int = 22) -> str:
    """The points of a polyline over equally spaced values, from zero on; empty when all are
    zero."""
    most = max(values, default=0)
    if not most:
        return ""
    step = width / max(1, len(values) - 1)
    scale = (height - 2) / most
    return " ".join(
        f"{n * step:.1f},{height - 1 - value * scale:.1f}" for n, value in enumerate(values)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionChart:
    """The stable and the last position over a while: SVG paths, and the values at the edges."""

    last: str
    stable: str
    held: str
    lowest: int
    highest: int
    since: datetime
    until: datetime


def position_chart(
    samples: Sequence[PositionSample], *, last: int, stable: int, now: datetime, back: timedelta
) -> PositionChart | None:
    """Draw samples up to the present positions; None when there is no sample in that time, or
    nothing had been produced.

    A position stays until the next sample, so the lines are steps.
    """
    if not samples:
        return None
    points = [(one.at, one.last_offset, one.stable_position) for one in samples]
    points.append((now, last, stable))
    lowest = min(point[2] for point in points)
    highest = max(point[1] for point in points)
    if highest < 0:
        return None
    # The positions before the first sample are unknown, so the chart begins there.
    since = max(now - back, min(samples[0].at, now - _LEAST))
    back = now - since
    spread = max(1, highest - lowest)

    def x(at: datetime) -> float:
        return max(0.0, (at - since) / back * WIDTH)

    def y(offset: int) -> float:
        return HEIGHT - 2 - (offset - lowest) / spread * (HEIGHT - 4)

    lasts = _steps([(x(at), y(value)) for at, value, _ in points])
    stables = _steps([(x(at), y(value)) for at, _, value in points])
    return PositionChart(
        last=_path(lasts),
        stable=_path(stables),
        held=f"{_path(lasts)}{_path(stables[::-1]).replace('M', 'L', 1)}Z",
        lowest=lowest,
        highest=highest,
        since=since,
        until=now,
    )


def _steps(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """A path of horizontal and vertical lines; points at which nothing changes are left out."""
    steps = [points[0]]
    for x, y in points[1:]:
        before = steps[-1][1]
        if y != before:
            steps += [(x, before), (x, y)]
    steps.append((points[-1][0], steps[-1][1]))
    return steps


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
