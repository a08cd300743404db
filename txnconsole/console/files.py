"""Lists as files: CSV for spreadsheets, or JSON with one object a line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import msgspec
from django.http import HttpResponseBase, StreamingHttpResponse
from django.utils.http import content_disposition_header

from txnconsole.streamed import streamed

R = TypeVar("R", bound=HttpResponseBase)
#: A page of a list: rows of values in the order of its columns.
Rows = Iterable[Sequence[object]]

_KINDS = {"csv": "text/csv", "json": "application/x-ndjson"}

#: Beginnings of text that a spreadsheet takes for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def list_file(
    name: str, form: str, columns: Sequence[str], pages: Iterable[Rows]
) -> StreamingHttpResponse:
    """A list as a file (``csv`` or ``json``).

    Pages are read and sent one after the other, so that neither all of them are in memory nor a
    connection is held for long.
    """
    lines = csv_lines(columns, pages) if form == "csv" else _json_lines(columns, pages)
    return attached(streamed(lines, f"{_KINDS[form]}; charset=utf-8"), f"{name}.{form}")


def attached(response: R, name: str) -> R:
    """The response as a file of that name, which browsers store."""
    response["Content-Disposition"] = content_disposition_header(True, name)
    return response


def _json_lines(columns: Sequence[str], pages: Iterable[Rows]) -> Iterator[str]:
    for page in pages:
        rows = (dict(zip(columns, row, strict=True)) for row in page)
        yield msgspec.json.Encoder().encode_lines(rows).decode()


def csv_lines(columns: Sequence[str], pages: Iterable[Rows]) -> Iterator[str]:
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
