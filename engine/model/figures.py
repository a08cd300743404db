"""The counters for monitoring: counts of events, and histograms of durations."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

#: Upper bounds of the histograms' buckets, in seconds, inclusive; the last bucket has none. Counts
#: are stored by these buckets, so another bound needs a migration.
BOUNDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0),
)


class FigureName(StrEnum):
    """The counters; in brackets the meaning of the label."""

    EXECUTION = "execution"
    """Seconds from opening to the decision, of transactions that ended (outcome/reason)."""
    FINALIZE = "finalize"
    """Seconds from the decision to COMMITTED or ABORTED (outcome)."""
    VISIBLE = "visible"
    """Seconds from a commit's decision until a partition had its marker, by one clock."""
    FINALIZE_RETRIES = "finalize_retries"
    """Participants that did not carry out an end, and are asked again (kind)."""
    PENDING_ACK_CONFLICTS = "pending_ack_conflicts"
    """Acknowledgements refused with TransactionConflict."""
    OPERATOR_ACTIONS = "operator_actions"
    """Changes that people and tokens made (action/result)."""
    TASKS = "tasks"
    """Seconds that a worker's task took (task/result)."""
    TASKS_KILLED = "tasks_killed"
    """Tasks whose process was killed (task)."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A counter: how often something was counted and, for durations, their sum and how many were in
    each bucket."""

    name: FigureName
    label: str
    count: int
    seconds: float
    buckets: tuple[int, ...]

    def __add__(self, other: Figure) -> Figure:
        longer, shorter = sorted((self.buckets, other.buckets), key=len, reverse=True)
        padded = shorter + (0,) * (len(longer) - len(shorter))
        return Figure(
            self.name,
            self.label,
            self.count + other.count,
            self.seconds + other.seconds,
            tuple(a + b for a, b in zip(longer, padded, strict=True)),
        )

    def cumulative(self) -> list[tuple[float, int]]:
        """Each bound with the number of observations at or below it; the last bound is infinity."""
        total = 0
        found = []
        for bound, count in zip((*BOUNDS, float("inf")), self.buckets, strict=True):
            total += count
            found.append((bound, total))
        return found


class Tally:
    """A collection of counters that things are added to. Not thread-safe."""

    def __init__(self, figures: Iterable[Figure] = ()) -> None:
        self._figures: dict[tuple[FigureName, str], Figure] = {}
        for figure in figures:
            self.add(figure)

    def __bool__(self) -> bool:
        return bool(self._figures)

    def __iter__(self) -> Iterator[Figure]:
        return iter(sorted(self._figures.values(), key=lambda each: (each.name, each.label)))

    def count(self, name: FigureName, label: str = "", *, times: int = 1) -> None:
        """Count an event."""
        self.add(Figure(name, label, times, 0.0, ()))

    def observe(self, name: FigureName, seconds: float, label: str = "") -> None:
        """Count a duration. A negative one, which comes of a database's clock that was set back,
        counts as 0."""
        seconds = max(0.0, seconds)
        buckets = [0] * (len(BOUNDS) + 1)
        buckets[bisect_left(BOUNDS, seconds)] = 1
        self.add(Figure(name, label, 1, seconds, tuple(buckets)))

    def add(self, figure: Figure) -> None:
        """Add what a counter has counted."""
        known = self._figures.get((figure.name, figure.label))
        self._figures[figure.name, figure.label] = figure if known is None else known + figure
