"""The text of server-sent events."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

HEARTBEAT = ": heartbeat\n\n"
#: How long browsers wait before they reconnect, in milliseconds.
RETRY = "retry: 2000\n\n"

_encode = msgspec.json.Encoder().encode


def frame(event: str, data: Mapping[str, object] | None = None, *, position: str = "") -> str:
    """The text of one event. ``position`` becomes its id, which the browser sends when it
    reconnects."""
    lines = [f"id: {position}"] if position else []
    lines += [f"event: {event}", f"data: {_encode(data or {}).decode()}"]
    return "\n".join(lines) + "\n\n"
