"""The figures that the job ``metrics`` has computed, as the console shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from django.db.models import Q

from txnconsole.console.numbers import number_of
from txnconsole.console.slices import page_of
from txnconsole.runs.models import Figure

#: With the charts above them, as many as a page's budget of elements has room for.
PAGE_ROWS = 24
DIMENSIONS = ("topic", "coordinator", "client", "owner")
RESOLUTIONS = ("hour", "minute")


@dataclass(frozen=True, slots=True)
class FigureRow:
    """A figure with what is computed from it; ``share`` is the percentage of the largest in the
    list, for its bar."""

    figure: Figure
    share: int

    @property
    def ended(self) -> int:
        return self.figure.committed + self.figure.aborted

    @property
    def abort_percent(self) -> float | None:
        return 100 * self.figure.aborted / self.ended if self.ended else None


@dataclass(frozen=True, slots=True)
class PageEnd:
    """Where a page of the list ends: the period and the name of its last figure. In an address it
    is ``<seconds>:<name>``."""

    at: datetime
    name: str

    def __str__(self) -> str:
        return f"{int(self.at.timestamp())}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read it from an address; None for any other text."""
        before, colon, name = text.partition(":")
        # Eleven digits reach beyond the year 5000, and stay within what a datetime can hold.
        seconds = number_of(before, digits=11)
        if seconds is None or not colon:
            return None
        return cls(datetime.fromtimestamp(seconds, UTC), name)


@dataclass(frozen=True, slots=True)
class FigureList:
    """Figures, the newest first; ``older``: where the next page begins, None on the last page."""

    rows: Sequence[FigureRow]
    older: PageEnd | None


def read_figures(
    *, dimension: str, resolution: str, name: str, before: PageEnd | None = None
) -> FigureList:
    """One page of the figures of a dimension.

    Args:
        name: of which topic, owner, …; empty for all.
        before: the end of the page before.

    Returns:
        The page. Its bars compare messages for topics, the time held for owners, and ended
            transactions for the others.
    """
    figures = Figure.objects.filter(dimension=dimension, resolution=resolution)
    if name:
        figures = figures.filter(name=name)
    if before is not None:
        # The first condition follows from the second; an index can answer it.
        figures = figures.filter(at__lte=before.at).filter(
            Q(at__lt=before.at) | Q(name__gt=before.name)
        )
    columns = figures.defer("begin_commit", "commit_visible").order_by("-at", "name")
    shown, last = page_of(columns, PAGE_ROWS)
    largest = max((_weight(each) for each in shown), default=0)
    rows = [FigureRow(each, round(100 * _weight(each) / max(1, largest))) for each in shown]
    return FigureList(rows, PageEnd(last.at, last.name) if last else None)


def _weight(figure: Figure) -> int:
    if figure.dimension == "topic":
        return figure.messages
    if figure.dimension == "owner":
        return figure.held_ms
    return figure.committed + figure.aborted
