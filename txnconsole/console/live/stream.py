"""One browser's stream: frames of one channel, heartbeats, and the end of its session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from importlib import import_module

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.db import connections
from django.http import HttpRequest

from txnconsole.access.principal import principal_of
from txnconsole.console.live.channels import Channel
from txnconsole.console.live.frames import HEARTBEAT, RETRY, frame
from txnconsole.console.live.hub import Hub, TooManyStreams, hub

#: Seconds of silence after which a comment keeps the connection open.
HEARTBEAT_SECONDS = 15.0
#: Seconds between two checks that the session may still listen.
RECHECK_SECONDS = 60.0


async def frames(
    channel: Channel,
    session_key: str,
    *,
    get_hub: Callable[[], Hub] = hub,
    recheck_seconds: float = RECHECK_SECONDS,
) -> AsyncIterator[str]:
    """Yield the channel's frames until the browser goes away or its session ends.

    The channel is joined by the first step and left by the last, so that a stream that was never
    started holds no place.
    """
    source = get_hub()
    try:
        listener = source.join(channel.name, channel.make_feed)
    except TooManyStreams:
        yield frame("bye", {"reason": "full"})
        return
    clock = asyncio.get_running_loop().time
    try:
        yield RETRY
        checked = clock()
        while True:
            text = await listener.next(HEARTBEAT_SECONDS)
            if clock() - checked >= recheck_seconds:
                if not await sync_to_async(_may_listen)(session_key, channel):
                    yield frame("bye", {"reason": "signed out"})
                    return
                checked = clock()
            yield HEARTBEAT if text is None else text
    finally:
        source.leave(channel.name, listener)


def _may_listen(session_key: str, channel: Channel) -> bool:
    """Whether the session is still signed in and permitted; leaves no connection open."""
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    try:
        principal = principal_of(get_user(request))
    finally:
        connections.close_all()
    return principal is not None and principal.may(channel.permission)
