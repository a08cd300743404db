from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync
from django.db import connections
from django.http import StreamingHttpResponse

from txnconsole.console.live.frames import frame
from txnconsole.console.live.sse import sse_response

PACKAGE = Path(__file__).parents[3] / "txnconsole"


def test_streams_are_made_in_two_places_only_which_hold_no_connection() -> None:
    """One made elsewhere would hold a database connection for each open tab or slow reader."""
    made = re.compile(r"StreamingHttpResponse\(")
    users = [file for file in PACKAGE.rglob("*.py") if made.search(file.read_text())]
    found = sorted(str(file.relative_to(PACKAGE)) for file in users)
    assert found == ["console/live/sse.py", "streamed.py"]


@pytest.mark.django_db(transaction=True)
def test_a_stream_closes_the_connection_of_its_request() -> None:
    async def nothing() -> AsyncIterator[str]:
        yield ""

    async def respond() -> StreamingHttpResponse:
        return await sse_response(nothing())

    connections["default"].ensure_connection()
    response = async_to_sync(respond)()
    assert connections["default"].connection is None
    assert response["Content-Type"] == "text/event-stream"
    assert response["Content-Encoding"] == "identity"


def test_a_frame_is_one_event_whatever_its_data() -> None:
    text = frame("delta", {"key": "two\nlines\n\nevent: bye"}, position="7.ab")
    assert text.splitlines()[:2] == ["id: 7.ab", "event: delta"]
    assert text.endswith("\n\n")
    assert text.count("\n\n") == 1
