"""The messages of one transaction in one partition, whatever stands between them."""

from __future__ import annotations

from dataclasses import dataclass

from engine.inspect.reading import Reading
from engine.log.entries import contents_of, messages_of
from engine.log.partition_log import PartitionLogs
from engine.log.retry import retry_once_on
from engine.model.errors import SegmentUnreadable
from engine.model.message import MAX_OFFSET, StoredMessage
from engine.model.topic import BufferKind
from engine.model.transaction import PartitionParticipant
from engine.model.txn_id import TxnID

#: How many entries one call looks at.
LOOK = 1_000


@dataclass(frozen=True, slots=True)
class Contents:
    """Some messages of a transaction. ``next_offset`` is where to look next, None at the end.

    There may be few messages, even none, and more further on, because entries of others lie between
    them.
    """

    messages: tuple[StoredMessage, ...]
    next_offset: int | None


@retry_once_on(SegmentUnreadable)  # its segment may have been dropped with its file meanwhile
def messages_of_txn(
    reading: Reading,
    log: PartitionLogs,
    part: PartitionParticipant,
    txn_id: TxnID,
    *,
    from_offset: int | None,
    limit: int,
) -> Contents:
    """Up to ``limit`` messages from an offset on, in the order of their offsets.

    In a sidecar-buffered partition messages get their offsets, side by side, when the transaction
    commits. Before that, and after an abort, none are shown.

    Raises:
        TopicNotFound, PartitionNotFound: there is no such partition.
        PartitionUnavailable: its broker cannot be reached.
        SegmentUnreadable: one of them cannot be read back.
    """
    if part.first_offset is None or part.last_offset is None:
        return Contents((), None)
    start = max(part.first_offset, from_offset or 0)
    if log.buffer_of(part.partition) is BufferKind.SIDECAR:
        beside = log.browse(part.partition, start, limit).messages
        found = [each for each in beside if each.txn_id == txn_id]
        looked = found[-1].offset if found else part.last_offset
    else:
        found, looked = _in_marker_log(reading, part, txn_id, start, limit)
    return Contents(tuple(found), None if looked >= part.last_offset else looked + 1)


def _in_marker_log(
    reading: Reading, part: PartitionParticipant, txn_id: TxnID, start: int, limit: int
) -> tuple[list[StoredMessage], int]:
    """Messages from ``start`` on, and the last offset that was looked at."""
    location = reading.locate(part.partition)
    with location.database.session() as session:
        entries = session.all(
            "messages_of_txn",
            partition_id=location.partition_id,
            tc_id=txn_id.tc_id,
            sequence=txn_id.sequence,
            from_offset=start,
            look=LOOK,
        )
    found: list[StoredMessage] = []
    looked = MAX_OFFSET if len(entries) < LOOK else entries[-1].last_offset
    for entry in entries:
        if not entry.matches:
            continue
        contents, _ = contents_of(entry, reading.brokers.offloaded)
        found += messages_of(entry, part.partition.number, contents, within=(start, MAX_OFFSET))
        if len(found) >= limit:
            return found[:limit], found[limit - 1].offset
    return found, looked
