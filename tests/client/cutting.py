"""Cutting the end of a log off, as an operator does."""

from __future__ import annotations

import json

from txnconsole.client import Client
from txnconsole.client.wire import Call


def cut(admin: Client, topic: str, offset: int) -> None:
    """Truncate partition 0 to an offset."""
    for step, body in (("offline", {}), ("truncate", {"offset": offset}), ("online", {})):
        path = f"/topics/{topic}/partitions/0/{step}"
        told = json.dumps(body | {"reason": "a test"}).encode()
        admin.perform(Call(method="POST", path=path, body=told, answer=dict))
