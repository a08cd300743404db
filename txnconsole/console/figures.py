"""The figures that the job ``metrics`` has computed, as the console shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from txnconsole.runs.models import Figure

PAGE_ROWS = 60
DIMENSIONS = ("topic", "coordinator", "client", "owner")
RESOLUTIONS = ("hour", "minute")


@dataclass(frozen=True, slots=True)
class FigureRow:
    """A figure with what follows from it."""

    figure: Figure
    #: Of the largest in the list, for the bars, in percent.
    share: int

    @property
    def ended(self) -> int:
        return self.figure.committed + self.figure.aborted

    @property
    def abort_percent(self) -> float | None:
        return 100 * self.figure.aborted / self.ended if self.ended else None


@dataclass(frozen=True, slots=True)
class FigureList:
    """The newest figures first; ``more``: there are older ones that are not shown."""

    rows: Sequence[FigureRow]
    more: bool


def read_figures(*, dimension: str, resolution: str, name: str) -> FigureList:
    """Figures of one dimension, of one name or of all for an empty text. Bars compare messages of
    topics, time held of owners, and ended transactions of the others."""
    figures = Figure.objects.filter(dimension=dimension, resolution=resolution)
    if name:
        figures = figures.filter(name=name)
    columns = figures.defer("begin_commit", "commit_visible").order_by("-at", "name")
    found = list(columns[: PAGE_ROWS + 1])
    shown = found[:PAGE_ROWS]
    largest = max((_weight(each) for each in shown), default=0)
    rows = [FigureRow(each, round(100 * _weight(each) / max(1, largest))) for each in shown]
    return FigureList(rows, len(found) > PAGE_ROWS)


def _weight(figure: Figure) -> int:
    if figure.dimension == "topic":
        return figure.messages
    if figure.dimension == "owner":
        return figure.held_ms
    return figure.committed + figure.aborted
