"""Questions about one partition: each a statement, and what its rows say. Several can be asked in
one round trip (:meth:`engine.log.partition_log.PartitionLogs.look`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Generic, NamedTuple, TypeVar

from engine.log.rows import indexed_txn
from engine.model.partition import IndexedTxn, PositionSample, Segment
from engine.model.txn_status import Outcome
from engine.postgres.session import Params, Row

T = TypeVar("T")


class Question(NamedTuple, Generic[T]):
    """A statement with its parameters but the partition, and how its rows are read."""

    statement: str
    params: Params
    read: Callable[[Sequence[Row]], T]


def segments() -> Question[tuple[Segment, ...]]:
    """The newest 500 segments, newest first."""

    def read(rows: Sequence[Row]) -> tuple[Segment, ...]:
        return tuple(
            Segment(
                ledger_id=row.ledger_id,
                first_offset=row.first_offset,
                last_offset=row.last_offset,
                entries=row.entries,
                bytes=row.bytes,
                sealed=row.sealed_at is not None,
                created_at=row.created_at,
                offloaded_at=row.offloaded_at,
            )
            for row in rows
        )

    return Question("segments", {}, read)


def history(since: timedelta) -> Question[tuple[PositionSample, ...]]:
    """Samples of the positions from ``since`` ago until now, oldest first, at most 5000.

    They are taken when a partition has moved. The first is what held at the beginning, where that
    is known.
    """

    def read(rows: Sequence[Row]) -> tuple[PositionSample, ...]:
        return tuple(
            PositionSample(
                at=row.at, stable_position=row.stable_position, last_offset=row.last_offset
            )
            for row in reversed(rows)
        )

    return Question("history", {"since": since}, read)


def indexed(from_offset: int, upper_offset: int) -> Question[tuple[IndexedTxn, ...]]:
    """Ended transactions of both outcomes whose marker stands in [from, upper), in order."""
    span: Params = {"from_offset": from_offset, "to_offset": upper_offset - 1}
    return Question("ended_within", span, lambda rows: tuple(map(indexed_txn, rows)))


def ended_along(places: Sequence[int]) -> Question[tuple[tuple[int, int, Outcome], ...]]:
    """A sample of the ended transactions: for each offset in ``places`` the one whose marker comes
    next, as its first offset, its marker's and its outcome, without repetitions. The cost depends
    on the number of places, not on the log."""
    outcomes = {True: Outcome.ABORTED, False: Outcome.COMMITTED}

    def read(rows: Sequence[Row]) -> tuple[tuple[int, int, Outcome], ...]:
        return tuple((row.first_offset, row.last_offset, outcomes[row.aborted]) for row in rows)

    return Question("ended_along", {"places": list(places)}, read)
