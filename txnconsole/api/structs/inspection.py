"""Questions of operators: history, explanations, rehearsals."""

from __future__ import annotations

from math import ceil

import msgspec

from engine.inspect.history import Position as EnginePosition
from engine.inspect.history import Span
from engine.inspect.rehearsal import Rehearsal as EngineRehearsal
from engine.inspect.visibility import Explanation as EngineExplanation
from engine.inspect.visibility import ReasonCode
from engine.model.message import Isolation
from engine.model.moment import time_text
from engine.model.topic_name import PartitionName
from txnconsole.api.structs.fields import (
    Answer,
    Evidence,
    Limit,
    Moment,
    Name,
    Offset,
    PartitionText,
    Query,
    Time,
    TxnIDText,
    optional_time,
)


class HistoryQuery(Query):
    """``at`` or ``offset`` ask for one point, ``from`` and ``to`` for a range. A number as ``at``
    is an offset too."""

    at: Moment | Offset | None = None
    offset: Offset | None = None
    since: Moment | None = msgspec.field(default=None, name="from")
    until: Moment | None = msgspec.field(default=None, name="to")
    limit: Limit = 500


class Position(Answer):
    """The positions of a partition; unless ``exact``, those of the last sample before.

    ``holder`` held the stable position back; ``ended`` is the transaction that had just ended.
    """

    at: Time | None
    stable_position: int
    last_stable_offset: int
    last_offset: int
    exact: bool
    holder: TxnIDText | None
    ended: TxnIDText | None

    @classmethod
    def of(cls, position: EnginePosition) -> Position:
        return cls(
            at=optional_time(position.at),
            stable_position=position.stable_position,
            last_stable_offset=position.stable_position + 1,
            last_offset=position.last_offset,
            exact=position.exact,
            holder=_id(position.holder),
            ended=_id(position.ended),
        )


class PositionHistory(Answer):
    """``since`` and ``until`` are null for a single point."""

    partition: PartitionText
    since: Time | None
    until: Time | None
    points: list[Position]

    @classmethod
    def of(cls, partition: PartitionName, found: EnginePosition | Span) -> PositionHistory:
        if isinstance(found, EnginePosition):
            points = [Position.of(found)]
            return cls(partition=str(partition), since=None, until=None, points=points)
        return cls(
            partition=str(partition),
            since=time_text(found.since),
            until=time_text(found.until),
            points=[Position.of(each) for each in found.points],
        )


class ExplainQuery(Query):
    offset: Offset
    isolation: Isolation = Isolation.READ_COMMITTED
    subscription: Name | None = None


class VisibilityReason(Answer):
    code: ReasonCode
    text: str
    evidence: Evidence


class Explanation(Answer):
    """Why a reader gets a message, or does not. ``deliverable``: whether the next receive on the
    subscription that was asked for may get it."""

    partition: PartitionText
    offset: int
    isolation: Isolation
    subscription: str | None
    readable: bool
    deliverable: bool | None
    reasons: list[VisibilityReason]

    @classmethod
    def of(cls, found: EngineExplanation) -> Explanation:
        return cls(
            partition=str(found.partition),
            offset=found.offset,
            isolation=found.isolation,
            subscription=found.subscription.name if found.subscription else None,
            readable=found.readable,
            deliverable=found.deliverable,
            reasons=[
                VisibilityReason(code=one.code, text=one.text, evidence=one.evidence)
                for one in found.reasons
            ],
        )


class Rehearsal(Answer):
    """What recovery would read if the database restarted now, and how long that would take: by
    recoveries that were measured on this broker, and by what is usual as long as there are none.
    Unless ``exact``, there is more than was counted, and it takes longer."""

    partition: PartitionText
    snapshot_position: int | None
    unreadable_snapshots: list[int]
    last_offset: int
    entries: int
    bytes: int
    transactions: int
    exact: bool
    measured_recoveries: int
    estimated_ms: int

    @classmethod
    def of(cls, found: EngineRehearsal) -> Rehearsal:
        return cls(
            partition=str(found.partition),
            snapshot_position=found.snapshot_position,
            unreadable_snapshots=list(found.unreadable_snapshots),
            last_offset=found.last_offset,
            entries=found.entries,
            bytes=found.bytes,
            transactions=found.transactions,
            exact=found.exact,
            measured_recoveries=found.measured_recoveries,
            estimated_ms=ceil(found.estimated_ms),
        )


def _id(txn_id: object) -> str | None:
    return None if txn_id is None else str(txn_id)
