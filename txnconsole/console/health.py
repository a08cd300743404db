"""Is anything stuck? One sentence for the top of the overview, from what was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from engine.model.partition import PartitionStatus
from engine.model.txn_id import TxnID
from txnconsole.queue.heartbeat import Beat

#: An open transaction holds its partitions back for as long as it is open; beyond this it is news.
PATIENCE = timedelta(seconds=60)


class Level(StrEnum):
    """How bad it is; also the state whose badge the sentence carries."""

    CLEAR = "COMMITTED"
    WAITING = "OPEN"
    STUCK = "ABORTED"


class Hands(StrEnum):
    """Whether anybody carries decisions out."""

    AT_WORK = "at work"
    SILENT = "silent"
    NONE = "none"
    QUEUE_AWAY = "queue away"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The partition that has been held back for longest, by whom, and for how long."""

    partition: PartitionStatus
    txn_id: TxnID
    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What the sentence says; the template words it.

    Attributes:
        held: partitions that are held back.
        stuck: those of them that have been for longer than :data:`PATIENCE`.
        silent_ms: how long no worker has been heard of, when they are silent.
    """

    level: Level
    unreachable: Sequence[str]
    hands: Hands
    silent_ms: int | None
    held: int
    stuck: int
    longest: Holding | None

    @property
    def word(self) -> str:
        words = {Level.CLEAR: "Clear", Level.WAITING: "Waiting", Level.STUCK: "Stuck"}
        return words[self.level]


def health(
    held: Sequence[PartitionStatus], unreachable: Mapping[str, str], beats: Sequence[Beat] | None
) -> Health:
    """Judge what was read. Nothing held back, every database there and workers at work is clear.

    Args:
        beats: of workers, the liveliest first; None when the queue is away.
    """
    holdings = sorted(map(_holding, held), key=lambda one: one.for_ms, reverse=True)
    stuck = sum(one.for_ms > PATIENCE / timedelta(milliseconds=1) for one in holdings)
    hands = _hands(beats)
    if unreachable or hands is not Hands.AT_WORK or stuck:
        level = Level.STUCK
    else:
        level = Level.WAITING if holdings else Level.CLEAR
    return Health(
        level=level,
        unreachable=sorted(unreachable),
        hands=hands,
        silent_ms=beats[0].age_ms if beats and hands is Hands.SILENT else None,
        held=len(holdings),
        stuck=stuck,
        longest=holdings[0] if holdings else None,
    )


def _hands(beats: Sequence[Beat] | None) -> Hands:
    if beats is None:
        return Hands.QUEUE_AWAY
    if not beats:
        return Hands.NONE
    return Hands.SILENT if beats[0].silent else Hands.AT_WORK


def _holding(status: PartitionStatus) -> Holding:
    if status.blocker is None:
        raise ValueError(f"{status.partition} is not held back")
    since: datetime = status.blocker.first_append_at
    held_ms = (status.now - since) // timedelta(milliseconds=1)
    return Holding(partition=status, txn_id=status.blocker.txn_id, for_ms=max(0, held_ms))
