"""JSON answers as tables. Everything of users is printed as text, never as markup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))

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


def duration(value: Any) -> str:
    """Milliseconds as two units."""
    if value is None:
        return "–"
    left, parts = int(value), []
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 ms"


def moment(value: Any) -> str:
    """A time of the contract, to the millisecond."""
    return "–" if value is None else f"{str(value)[:10]} {str(value)[11:23]}Z"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; ``path`` leads to the value, dots between its members. One of ``prose``
    may be folded, or left out, where a terminal is narrow; states, ids and numbers may not."""

    title: str
    path: str
    show: Show = plain
    right: bool = False
    prose: bool = False

    @property
    def folds(self) -> bool:
        return self.prose or self.show is moment


def rows_table(
    rows: Sequence[Any], columns: Sequence[Column], *, width: int
) -> tuple[Table, Sequence[Column]]:
    """A table of objects, a row each, and which columns it has. Those that do not fit are left out:
    moments first, then other prose, the last ones first, and never the first column. Folded are
    only moments and prose."""
    shown = list(columns)
    spare = [column for column in columns[1:] if column.folds]
    spare.sort(key=lambda column: column.show is moment)  # The last one goes first.
    while spare and least_width(rows, shown) > width:
        shown.remove(spare.pop())
    return _table(rows, shown), shown


def _table(rows: Iterable[Any], columns: Sequence[Column]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        justify: Literal["left", "right"] = "right" if column.right else "left"
        table.add_column(column.title, justify=justify, overflow="fold", no_wrap=not column.folds)
    for row in rows:
        table.add_row(*(_cell(column.show(_at(row, column.path))) for column in columns))
    return table


def least_width(rows: Sequence[Any], columns: Sequence[Column]) -> int:
    """Columns of a terminal in which a table has nothing folded that may not be."""
    total = 3 * len(columns) - 1  # What stands between them and beside them.
    for column in columns:
        cells = (_cell(column.show(_at(row, column.path))) for row in rows)
        natural = max([cell_len(column.title), *(cell.cell_len for cell in cells)])
        total += min(natural, _LEAST) if column.folds else natural
    return total


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


def _cell(text: str) -> Text:
    shown = "".join(
        character if character.isprintable() else f"\\x{ord(character):02x}" for character in text
    )
    return Text(shown, style=_STYLES.get(text, ""))
