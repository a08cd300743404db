"""Probes (design/api.md, Coordinators, operations)."""

from __future__ import annotations

from typing import Literal

from txnconsole.api.structs.fields import Answer


class Health(Answer):
    status: Literal["up"] = "up"


class PartState(Answer):
    """A part of the product: a database, the queue, a worker."""

    name: str
    state: Literal["up", "down"]
    detail: str = ""


class Readiness(Answer):
    status: Literal["ready", "not ready"]
    databases: list[PartState]
    queue: PartState
    workers: PartState
