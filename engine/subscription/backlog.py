"""The backlog: how many messages a subscription has not acknowledged yet.

Unread offsets of markers and aborted messages are not messages. How many of them a whole segment
has is stored in its record, where the sweep of :mod:`engine.log.retention` counts them once. The
log is searched for them only where a segment is unread in part, or has not been counted. So the
cost does not grow with the length of the log.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.model.ranges import Ranges, Run
from engine.model.subscription import AckType
from engine.postgres.session import Session


def count(session: Session, partition_id: int, unread: Ranges) -> int:
    """How many of some offsets hold a message that readers get. All of the offsets have to lie at
    or below the stable position."""
    if unread.first is None or unread.last is None:
        return 0
    segments = session.all(
        "counted_segments",
        partition_id=partition_id,
        after=unread.first - 1,
        until=unread.last,
    )
    unseen = 0
    settled: list[Run] = []
    for segment in segments:
        offsets = Ranges.run(segment.first_offset, segment.last_offset + 1)
        wanted = offsets & unread
        if not wanted or wanted == offsets:
            unseen += segment.unseen if wanted else 0
            settled.extend(offsets.runs)
    for stretch in _stretches(unread, Ranges.of(settled)):
        row = session.one(
            "invisible",
            partition_id=partition_id,
            mark_delete=stretch.runs[0][0] - 1,
            stable_position=stretch.runs[-1][1] - 1,
        )
        if row is not None:
            unseen += len(stretch & row.ranges)
    return len(unread) - unseen


def acknowledged(session: Session, partition_id: int, ack_type: str, ranges: Ranges) -> int:
    """How many messages an acknowledgement in a transaction is about. The ranges of a cumulative
    one include markers and aborted messages, which do not count."""
    if ack_type == AckType.CUMULATIVE:
        return count(session, partition_id, ranges)
    return len(ranges)


def _stretches(unread: Ranges, settled: Ranges) -> Iterator[Ranges]:
    """The unread offsets that do not lie in settled segments, one set for each gap between
    these."""
    last = unread.runs[-1][1]
    for lower, upper in (Ranges.run(unread.runs[0][0], last) - settled).runs:
        stretch = unread & Ranges.run(lower, upper)
        if stretch:
            yield stretch
