"""Lists as CSV, for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

#: What a spreadsheet would take for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_lines(columns: Sequence[str], pages: Iterable[Iterable[Sequence[object]]]) -> Iterator[str]:
    """The header and the rows of each page, as text that a file goes on with."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(columns)
    yield _taken(buffer)
    for page in pages:
        writer.writerows([_cell(value) for value in row] for row in page)
        yield _taken(buffer)


def _taken(buffer: io.StringIO) -> str:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text


def _cell(value: object) -> object:
    """Text that a spreadsheet would run is told to be text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
