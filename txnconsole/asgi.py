"""The ASGI application: the whole product behind one address (docs/decisions/0006).

Server-sent events run on the event loop; everything else is synchronous and runs on threads.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Mapping
from functools import cache
from types import FrameType
from typing import Any

from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application

from txnconsole.environment import Process

Process.answers_requests = True
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "txnconsole.settings")
_events = get_asgi_application()

from django.conf import settings  # noqa: E402  # After Django has been set up.
from django.urls import resolve  # noqa: E402

from txnconsole.wsgi_on_threads import Receive, Scope, Send, WsgiOnThreads  # noqa: E402

#: The one address that answers with a stream (txnconsole.console.live).
_LIVE = "/live"
_everything_else = WsgiOnThreads(
    get_wsgi_application(),
    threads=settings.WEB_THREADS,
    waiting=settings.WAITING_CALLS,
    body_limit=settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
)

resolve("/readyz")  # All views are imported now, and not by the first request.
# What has been made by now lives as long as the process: it need not be gone through for garbage
# again and again. A request makes hundreds of objects, so Python's own threshold of 700 would have
# each of them pay for a collection; that took a quarter of producing a hundred messages.
gc.collect()
gc.freeze()
gc.set_threshold(10_000, 20, 50)


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request."""
    _await_the_end()
    if scope["path"] == _LIVE:  # However its method is written: a thread would wait for the end.
        await _events(scope, _without_body(receive), send)
    else:
        await _everything_else(scope, receive, send)


@cache
def _await_the_end() -> None:
    """Note when this process is told to end, beside the server's own handler, which is there by the
    first request: the server waits for what is under way, and kills it seconds later."""
    of_server = signal.getsignal(signal.SIGTERM)

    def told(number: int, frame: FrameType | None) -> None:
        Process.is_ending = True
        if callable(of_server):
            of_server(number, frame)

    signal.signal(signal.SIGTERM, told)


def _without_body(receive: Receive) -> Receive:
    """The same request without a body. Django would write whatever comes to a file before it asks
    who sends it."""
    begun = False

    async def received() -> Mapping[str, Any]:
        nonlocal begun
        if not begun:
            begun = True
            return {"type": "http.request", "body": b"", "more_body": False}
        while (message := await receive())["type"] == "http.request":
            pass
        return message

    return received
