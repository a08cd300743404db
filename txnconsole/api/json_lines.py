"""Answers of any length: JSON lines, which are sent while they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from django.http import StreamingHttpResponse

from txnconsole.streamed import streamed

JSON_LINES = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class Lines:
    """An answer with one line for each struct of some pages."""

    pages: Iterable[Sequence[msgspec.Struct]]
    headers: Mapping[str, str] = field(default_factory=dict)


def stream(lines: Lines) -> StreamingHttpResponse:
    """Send the lines while they are read."""
    response = streamed(_encoded(lines.pages), JSON_LINES)
    for name, value in lines.headers.items():
        response[name] = value
    return response


def _encoded(pages: Iterable[Sequence[msgspec.Struct]]) -> Iterator[bytes]:
    encoder = msgspec.json.Encoder()
    for page in pages:
        if page:
            yield encoder.encode_lines(page)
