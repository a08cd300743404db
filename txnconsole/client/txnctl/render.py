"""JSON answers as tables. Everything of users is printed as text, never as markup."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

_STYLES = {
    "OPEN": "yellow",
    "COMMITTING": "cyan",
    "ABORTING": "magenta",
    "COMMITTED": "green",
    "ABORTED": "red",
    "offline": "red",
    "recovering": "yellow",
}
#: What may be folded gets so many columns of a terminal at least: a time of day.
_LEAST = 13
#: What stands between two columns; the table's edges take one less.
_BETWEEN = 3

Show = Callable[[Any], str]
Fields = Sequence[tuple[str, str, Show]]


def plain(value: Any) -> str:
    """A value as people write it."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(plain(each) for each in value) or "–"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={plain(each)}" for name, each in value.items()) or "–"
    return str(value)


def exact(value: Any) -> str:
    """An id or an offset: no separators, to be copied."""
    return "–" if value is None else str(value)


def moment(value: Any) -> str:
    """A time of the contract, to the millisecond."""
    return "–" if value is None else f"{str(value)[:10]} {str(value)[11:23]}Z"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; ``path`` leads to the value, dots between its members.

    Where a terminal is narrow, ``prose`` may be folded, and states, ids and numbers may not;
    ``spare`` is what is left out before prose is.
    """

    title: str
    path: str
    show: Show = plain
    right: bool = False
    prose: bool = False
    spare: bool = False

    @property
    def folds(self) -> bool:
        return self.prose or self.show is moment


@dataclass(slots=True)
class _Width:
    least: int
    natural: int


def rows_table(
    rows: Sequence[Any], columns: Sequence[Column], *, width: int
) -> tuple[Table, Sequence[Column]] | None:
    """A table of objects, a row each, and which columns it has; None where it does not fit.

    Left out are moments first, then what is spare, then other prose, the last ones first, and never
    the first column. Folded are moments, prose, and titles between their words.
    """
    measured = {column.title: _measured(rows, column) for column in columns}
    shown = list(columns)
    optional = [column for column in columns[1:] if column.folds or column.spare]
    optional.sort(key=lambda column: (column.show is moment) * 2 + column.spare)
    while sum(measured[column.title].least + _BETWEEN for column in shown) > width + 1:
        if not optional:
            return None
        shown.remove(optional.pop())
    widths = _widths([measured[column.title] for column in shown], width)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column, wide in zip(shown, widths, strict=True):
        justify: Literal["left", "right"] = "right" if column.right else "left"
        table.add_column(column.title, justify=justify, overflow="fold", width=wide)
    for row in rows:
        table.add_row(*(_cell(column.show(_at(row, column.path))) for column in shown))
    return table, shown


def _measured(rows: Sequence[Any], column: Column) -> _Width:
    title = max(cell_len(word) for word in column.title.split())
    cells = max((_cell(column.show(_at(row, column.path))).cell_len for row in rows), default=0)
    least = max(title, min(cells, _LEAST) if column.folds else cells)
    return _Width(least, max(cell_len(column.title), cells))


def _widths(columns: Sequence[_Width], width: int) -> list[int]:
    """What each gets: its least, and of the rest the narrowest that want more."""
    given = [column.least for column in columns]
    for _ in range(width + 1 - sum(given) - _BETWEEN * len(given)):
        wanting = [at for at, column in enumerate(columns) if given[at] < column.natural]
        if not wanting:
            break
        given[min(wanting, key=given.__getitem__)] += 1
    return given


def fields_table(answer: Any, fields: Fields) -> Table:
    """One object, a line for each of its fields."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for title, path, show in fields:
        table.add_row(title, _cell(show(_at(answer, path))))
    return table


def _at(value: Any, path: str) -> Any:
    for name in path.split("."):
        if value is None:
            return None
        value = value.get(name)
    return value


def visible(text: str, *, but: str = "") -> str:
    """A user's text whose control characters do nothing to a terminal; those in ``but`` stay."""
    return "".join(
        each if each.isprintable() or each in but else f"\\x{ord(each):02x}" for each in text
    )


def _cell(text: str) -> Text:
    return Text(visible(text), style=_STYLES.get(text, ""))
