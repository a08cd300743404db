"""One browser's stream: the frames of a channel, heartbeats, and its end with the session."""

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
from txnconsole.access.roles import Permission
from txnconsole.console.live.channels import Channel
from txnconsole.console.live.frames import HEARTBEAT, RETRY, frame
from txnconsole.console.live.hub import Hub, TooManyStreams, hub
from txnconsole.enginedb.away import DATABASE_AWAY
from txnconsole.environment import Process

#: Seconds of silence after which a comment keeps the connection open.
HEARTBEAT_SECONDS = 15.0
#: Seconds between two checks that the session may still listen.
RECHECK_SECONDS = 60.0


async def frames(
    channel: Channel,
    session_key: str,
    *,
    hears_alerts: bool = False,
    get_hub: Callable[[], Hub] = hub,
    recheck_seconds: float = RECHECK_SECONDS,
) -> AsyncIterator[str]:
    """Yield the channel's frames until the browser goes away, its session or permission ends, or
    this process is about to end: the browser then comes again, and another process answers.

    The first step joins the channel and the last one leaves it, so that a stream that was never
    started takes no place.
    """
    source = get_hub()
    try:
        listener = source.join(channel.name, channel.make_feed, hears_alerts=hears_alerts)
    except TooManyStreams:
        yield frame("bye", {"reason": "full"})
        return
    clock = asyncio.get_running_loop().time
    try:
        yield RETRY
        checked = clock()
        while True:
            text = await listener.next(HEARTBEAT_SECONDS)
            if Process.is_ending:
                return
            if clock() - checked >= recheck_seconds:
                goodbye = await sync_to_async(_goodbye)(session_key, channel, hears_alerts)
                if goodbye is not None:
                    yield frame("bye", {"reason": goodbye})
                    return
                checked = clock()
            yield HEARTBEAT if text is None else text
    finally:
        source.leave(channel.name, listener)


def _goodbye(session_key: str, channel: Channel, hears_alerts: bool) -> str | None:
    """Why the session may not listen any more; None while it may. It leaves no connection open.

    A user who has lost a role is still signed in, and is not sent to sign in again: that would not
    help. Nor is one of whom nothing is known while the database is away: the page comes back.
    """
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    try:
        principal = principal_of(get_user(request))
    except DATABASE_AWAY:
        return "away"
    finally:
        connections.close_all()
    if principal is None:
        return "signed out"
    may_hear_alerts = principal.may(Permission.ALERT_READ)
    if channel.may_be_heard_by(principal) and (may_hear_alerts or not hears_alerts):
        return None
    return "not permitted"
