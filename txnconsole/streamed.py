"""Answers that go out as they are made, part by part.

The parts of an answer may be made on different threads (txnconsole.wsgi_on_threads) and go out as
fast as the caller reads, so between two of them no database connection is held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.http import StreamingHttpResponse

from txnconsole.enginedb.letting_go import let_go


def streamed(parts: Iterable[bytes | str], content_type: str) -> StreamingHttpResponse:
    """Send the parts while they are read."""
    return StreamingHttpResponse(_apart(parts), content_type=content_type)


def _apart(parts: Iterable[bytes | str]) -> Iterator[bytes | str]:
    for part in parts:
        let_go()
        yield part
