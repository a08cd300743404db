"""Coordinators (design/api.md, Coordinators, operations)."""

from __future__ import annotations

from engine.model.transaction import CoordinatorStats
from txnconsole.api.structs.fields import Answer, Time, optional_time


class Coordinator(Answer):
    coordinator_id: int
    state: str
    sequence: int
    low_water_mark: int
    ongoing_txns: int
    finalizing_txns: int
    oldest_open_age_ms: int | None
    recover_started_at: Time | None
    recover_ended_at: Time | None

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
        )


class Coordinators(Answer):
    items: list[Coordinator]
    next_cursor: str | None = None
