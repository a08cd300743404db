"""Answers as long as they come: JSON lines, some at a time.

The parts of an answer may be made on different threads (txnconsole.wsgi_on_threads) and go out as
fast as the caller reads, so between two of them no database connection is held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from django.db import connection
from django.http import StreamingHttpResponse

JSON_LINES = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class Lines:
    """An answer of one line for each struct."""

    pages: Iterable[Sequence[msgspec.Struct]]
    headers: Mapping[str, str] = field(default_factory=dict)


def stream(lines: Lines) -> StreamingHttpResponse:
    """Send the lines while they are read."""
    response = StreamingHttpResponse(_encoded(lines.pages), content_type=JSON_LINES)
    for name, value in lines.headers.items():
        response[name] = value
    return response


def _encoded(pages: Iterable[Sequence[msgspec.Struct]]) -> Iterator[bytes]:
    encoder = msgspec.json.Encoder()
    for page in pages:
        _give_back_connection()
        if page:
            yield encoder.encode_lines(page)


def _give_back_connection() -> None:
    if not connection.in_atomic_block:
        connection.close()
