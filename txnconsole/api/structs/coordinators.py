"""Coordinators (design/api.md, Coordinators, operations)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from engine.coordinator.scaling import MAX_COORDINATORS
from engine.model.transaction import CoordinatorStats
from txnconsole.api.structs.fields import Answer, Body, Reason, Time, optional_time


class Coordinator(Answer):
    """``owner`` is the worker that last carried out its decisions; null while none has.

    ``recover_started_at`` and ``recover_ended_at``: when a worker last recovered it, as workers do
    when they start.
    """

    coordinator_id: int
    state: str
    sequence: int
    low_water_mark: int
    ongoing_txns: int
    finalizing_txns: int
    oldest_open_age_ms: int | None
    recover_started_at: Time | None
    recover_ended_at: Time | None
    owner: str | None

    @classmethod
    def of(cls, stats: CoordinatorStats) -> Coordinator:
        return cls(
            coordinator_id=stats.tc_id,
            state=stats.state,
            sequence=stats.sequence,
            low_water_mark=stats.low_water_mark,
            ongoing_txns=stats.ongoing_txns,
            finalizing_txns=stats.finalizing_txns,
            oldest_open_age_ms=stats.oldest_open_age_ms,
            recover_started_at=optional_time(stats.recover_started_at),
            recover_ended_at=optional_time(stats.recover_ended_at),
            owner=stats.owner,
        )


class Coordinators(Answer):
    items: list[Coordinator]
    next_cursor: str | None = None


class ScaleCoordinators(Body):
    count: Annotated[int, msgspec.Meta(ge=1, le=MAX_COORDINATORS)]
    reason: Reason | None = None


class ScaledCoordinators(Answer):
    """How many coordinators there are, and how many there were."""

    count: int
    before: int
