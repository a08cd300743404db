"""The only place that makes a streaming response (design/console.md §1.4)."""

from __future__ import annotations

from collections.abc import AsyncIterator

from asgiref.sync import sync_to_async
from django.db import connections
from django.http import StreamingHttpResponse

_HEADERS = {
    "Cache-Control": "no-cache",
    # Keeps proxies and the gzip middleware from holding frames back.
    "X-Accel-Buffering": "no",
    "Content-Encoding": "identity",
}


async def sse_response(frames: AsyncIterator[str]) -> StreamingHttpResponse:
    """Answer with an endless stream of frames.

    The session and the user were read through Django's connection of this request's thread, which
    lives as long as the response. It is closed first; otherwise every open tab would hold a
    database connection.
    """
    await sync_to_async(connections.close_all)()
    return StreamingHttpResponse(frames, content_type="text/event-stream", headers=_HEADERS)
