"""Is anything stuck? The sentence at the top of the overview, decided from what was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from engine.model.partition import PartitionStatus
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnStatus
from txnconsole.console.readers import PATIENCE_MS, held_ms
from txnconsole.queue.heartbeat import Beat


class Level(StrEnum):
    """How bad it is."""

    CLEAR = "clear"
    WAITING = "waiting"
    STUCK = "stuck"


#: The transaction states whose badges are borrowed.
_BADGES = {
    Level.CLEAR: TxnStatus.COMMITTED,
    Level.WAITING: TxnStatus.OPEN,
    Level.STUCK: TxnStatus.ABORTED,
}


class Workers(StrEnum):
    """Whether there are workers, which carry out decisions and expire transactions."""

    AT_WORK = "at work"
    SILENT = "silent"
    NONE = "none"
    QUEUE_AWAY = "queue away"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPartition:
    """A partition that is held back, by which transaction, and for how long."""

    partition: PartitionStatus
    txn_id: TxnID
    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What the sentence says; the template words it.

    Attributes:
        held: how many partitions are held back.
        stuck: how many of them have been for longer than is normal.
        stuck_by: how many transactions hold those.
        silent_ms: for how long no worker has been heard of, when they are silent.
        longest: the partition that has been held back for longest.
    """

    level: Level
    unreachable: Sequence[str]
    workers: Workers
    silent_ms: int | None
    held: int
    stuck: int
    stuck_by: int
    longest: HeldPartition | None

    @property
    def word(self) -> str:
        return self.level.capitalize()

    @property
    def badge(self) -> TxnStatus:
        return _BADGES[self.level]


def health(
    held: Sequence[PartitionStatus], unreachable: Mapping[str, str], beats: Sequence[Beat] | None
) -> Health:
    """Judge what was read. All is clear when nothing is held back, every database answers and
    workers are at work.

    Args:
        held: the partitions that are held back.
        unreachable: the databases that do not answer, with the reason.
        beats: the workers' heartbeats, the newest first; None when the queue does not answer.
    """
    found = sorted(map(_held_partition, held), key=lambda one: one.for_ms, reverse=True)
    stuck = [one.txn_id for one in found if one.for_ms > PATIENCE_MS]
    workers = _workers(beats)
    if unreachable or workers is not Workers.AT_WORK or stuck:
        level = Level.STUCK
    else:
        level = Level.WAITING if found else Level.CLEAR
    return Health(
        level=level,
        unreachable=sorted(unreachable),
        workers=workers,
        silent_ms=beats[0].age_ms if beats and workers is Workers.SILENT else None,
        held=len(found),
        stuck=len(stuck),
        stuck_by=len(set(stuck)),
        longest=found[0] if found else None,
    )


def _workers(beats: Sequence[Beat] | None) -> Workers:
    if beats is None:
        return Workers.QUEUE_AWAY
    if not beats:
        return Workers.NONE
    return Workers.SILENT if beats[0].silent else Workers.AT_WORK


def _held_partition(status: PartitionStatus) -> HeldPartition:
    if status.blocker is None:
        raise ValueError(f"{status.partition} is not held back")
    for_ms = held_ms(status) or 0
    return HeldPartition(partition=status, txn_id=status.blocker.txn_id, for_ms=for_ms)
