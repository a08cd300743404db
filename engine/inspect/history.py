"""Where the positions of a partition were in the past, and which transaction held them there.

The aborted-transaction index keeps every transaction that ended, with its first offset, its marker
and the stable position that its end left behind. So one row of it tells exactly what the stable
position was when a given offset was the last one. It is the row of the first transaction that ended
after that offset: that transaction was open then, if it had begun, and the lowest of all others
that were open is the row's last_stable_offset. A moment is turned into an offset by the publish
times. All this holds as long as the log is kept. For the time before its start there are only the
workers' samples, which are marked as not exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from engine.inspect.reading import Reading, View
from engine.log.rows import txn_of
from engine.model.errors import InvalidRequest, MessageNotFound
from engine.model.topic_name import PartitionName
from engine.model.txn_id import TxnID
from engine.postgres.session import Row

#: How many points one answer has at most: half are ends of transactions, half samples.
MAX_POINTS = 1000
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The positions of a partition at a moment.

    Attributes:
        exact: False when this is the last sample before the moment.
        holder: the transaction that held the stable position, if any.
        ended: the transaction that ended at this moment; if it held the position, that moved.
    """

    at: datetime | None
    stable_position: int
    last_offset: int
    exact: bool = True
    holder: TxnID | None = None
    ended: TxnID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The positions over a while, in order. They are exact at its beginning and end and at the ends
    of transactions; when there are many, only at the last one in each part of the log. In between
    there are samples."""

    since: datetime
    until: datetime
    points: tuple[Position, ...]


def stable_at(offset: int, next_ended: Row | None, first_ongoing: int | None) -> int:
    """The stable position when ``offset`` was the last one.

    Args:
        next_ended: the index row with the lowest marker above the offset, if there is one.
        first_ongoing: the lowest first offset of what is ongoing now.
    """
    if next_ended is None:
        began = [first_ongoing]
    else:
        began = [next_ended.first_offset, next_ended.last_stable_offset]
    return min(
        (first - 1 for first in began if first is not None and first <= offset), default=offset
    )


def at_offset(reading: Reading, partition: PartitionName, offset: int) -> Position:
    """The positions of a partition when an offset was its last one.

    Raises:
        MessageNotFound: below the log's start, or beyond its end.
        PartitionUnavailable: recovering, or its broker cannot be reached.
    """
    with reading.view(partition) as view:
        start = view.head.log_start_offset
        if start > view.last_offset:
            raise MessageNotFound(f"{partition} has no offsets, its log is empty.")
        if not start <= offset <= view.last_offset:
            raise MessageNotFound(
                f"{partition} has offsets {start} to {view.last_offset}, not {offset}."
            )
        entry = view.one("entry_at", offset=offset)
        # A batch is appended as a whole, so it was its last offset that was the last of the log.
        last = entry.last_offset if entry else offset
        return _exact(view, last, entry.publish_time if entry else None)


def at_moment(reading: Reading, partition: PartitionName, at: datetime) -> Position:
    """The positions of a partition at a moment; those of an empty log before anything is known.

    Raises:
        PartitionUnavailable: recovering, or its broker cannot be reached.
    """
    with reading.view(partition) as view:
        return _at(view, at)


def between(
    reading: Reading,
    partition: PartitionName,
    *,
    since: datetime | None,
    until: datetime | None,
    back: timedelta,
    limit: int,
) -> Span:
    """The positions over a while, in about ``limit`` points at most.

    Args:
        since: the beginning; None for ``back`` before the end.
        until: the end; None for now.

    Raises:
        InvalidRequest: it ends before it begins.
        PartitionUnavailable: recovering, or its broker cannot be reached.
    """
    with reading.view(partition) as view:
        until = min(until or view.head.now, view.head.now)
        since = since or until - back
        if since >= until:
            raise InvalidRequest(
                "The range is empty: `from` must be before `to`, and in the past.", field="from"
            )
        first, last = _at(view, since), _at(view, until)
        parts = max(1, limit // 2)
        samples = view.all("samples_between", since=since, until=until, parts=parts)
        return Span(
            since=since,
            until=until,
            points=(
                first,
                *sorted(
                    [*_ends(view, first, last, parts), *map(_sampled, samples)],
                    key=lambda point: (point.at or until, point.last_offset),
                ),
                last,
            ),
        )


def open_before(
    reading: Reading, partition: PartitionName, start: int, end: int
) -> dict[TxnID, int]:
    """The transactions that were open when ``start`` was appended, with their first offsets, as far
    as they matter to readers up to ``end``: all that ended by then, and of the others the first.

    Raises:
        PartitionUnavailable: recovering, or its broker cannot be reached.
    """
    with reading.view(partition) as view:
        found = {
            txn_of(row): row.first_offset
            for row in view.all("ended_within", from_offset=start, to_offset=end)
            if row.first_offset < start
        }
        last = _exact(view, min(end, view.last_offset), None)
        if last.stable_position + 1 < start and last.holder is not None:
            found[last.holder] = last.stable_position + 1
    return found


def _at(view: View, at: datetime) -> Position:
    found = view.one("offset_at", at=at)
    last = int(found.last_offset) if found else -1
    if last >= view.head.log_start_offset or view.head.log_start_offset == 0:
        return _exact(view, last, at)
    sample = view.one("sample_before", at=at)
    if sample is None:
        return Position(at=at, stable_position=-1, last_offset=-1, exact=False)
    return _sampled(sample)


def _exact(view: View, last: int, at: datetime | None) -> Position:
    row = view.one("next_ended", offset=last)
    stable = stable_at(last, row, view.head.first_ongoing_offset)
    holder = None
    if stable < last:
        # The holder is the transaction of the next message; retention may have dropped that.
        entry = view.one("entry_at", offset=stable + 1)
        if entry is not None and entry.first_offset == stable + 1 and entry.tc_id is not None:
            holder = TxnID(entry.tc_id, entry.sequence)
        elif row is not None and row.first_offset == stable + 1:
            holder = txn_of(row)
    return Position(at=at, stable_position=stable, last_offset=last, holder=holder)


def _ends(view: View, first: Position, last: Position, parts: int) -> Sequence[Position]:
    lower = max(first.last_offset, view.head.log_start_offset - 1)
    length = last.last_offset - lower
    if length <= 0:
        return []
    width = -(-length // parts)
    rows = view.all(
        "ended_between",
        from_offset=lower,
        upper=last.last_offset,
        width=width,
        parts=-(-length // width),
    )
    return [
        Position(
            at=row.at,
            stable_position=row.last_stable_offset - 1,
            last_offset=row.last_offset,
            ended=txn_of(row),
        )
        for row in rows
    ]


def _sampled(row: Row) -> Position:
    return Position(
        at=row.at, stable_position=row.stable_position, last_offset=row.last_offset, exact=False
    )
