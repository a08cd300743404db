"""JSON answers as tables. Everything of users is printed as text, never as markup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
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
    """A column of a table; ``path`` leads to the value, dots between its members."""

    title: str
    path: str
    show: Show = plain
    right: bool = False


def rows_table(rows: Iterable[Any], columns: Sequence[Column]) -> Table:
    """A table of objects, a row each."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(column.show(_at(row, column.path))) for column in columns))
    return table


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
