"""Lists as CSV files for spreadsheets, and times as all files write them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

#: Beginnings of text that a spreadsheet takes for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_lines(columns: Sequence[str], pages: Iterable[Iterable[Sequence[object]]]) -> Iterator[str]:
    """The header and the rows of each page, as parts of the file's text."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(columns)
    yield _taken(buffer)
    for page in pages:
        writer.writerows([_cell(value) for value in row] for row in page)
        yield _taken(buffer)


def moment_text(moment: datetime | None) -> str | None:
    """A moment in UTC, to the microsecond."""
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="microseconds")


def _taken(buffer: io.StringIO) -> str:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text


def _cell(value: object) -> object:
    """Mark text that a spreadsheet would run as a formula, so that it takes it for text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
