"""The part of a partition's log that the log page draws, and what is added to it every second.

Everything is in the compact form that the page's script reads. An entry is
``[offset, kind, txn_id, key, publish_ms, bytes]`` with kind ``m`` (message), ``c`` (commit
marker) or ``a`` (abort marker); a transaction is
``[state, first_offset, last_offset, messages, owner, opened_ms, timeout_ms]``.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from engine import Engine
from engine.inspect.blockers import Blocker
from engine.log import questions
from engine.model.message import EntryKind, StoredMessage, Visibility
from engine.model.partition import IndexedTxn, PartitionStatus, PositionSample
from engine.model.topic_name import PartitionName
from txnconsole.access.masking import key_shown
from txnconsole.access.payloads import Sight
from txnconsole.console.live.feed import digest
from txnconsole.console.plots import epoch_ms

COLUMNS = 64
ROWS = 6
#: The table of entries begins so many before the stable position or the offset that was gone to, or
#: has the last so many.
TABLE_BEFORE, TABLE_ENTRIES = 3, 9
#: How many offsets the form of an export suggests at the end of the log.
EXPORTED = 1_000
#: How far back the chart of positions goes.
HISTORY = timedelta(minutes=5)
#: How many ongoing transactions the page gets, those with the lowest first offset.
MAX_ONGOING = 50
#: How many ended transactions are drawn as spans.
MAX_ENDED = 40

_KIND = {EntryKind.DATA: "m", EntryKind.TXN_COMMIT: "c", EntryKind.TXN_ABORT: "a"}
_STATE = {
    EntryKind.TXN_COMMIT: "COMMITTED",
    EntryKind.TXN_ABORT: "ABORTED",
    Visibility.OPEN: "OPEN",
    Visibility.ABORTED: "ABORTED",
    Visibility.BLOCKED: "COMMITTED",
    Visibility.VISIBLE: "COMMITTED",
}

Entry = list[Any]
Span = list[Any]


def read_window(
    engine: Engine, partition: PartitionName, *, at: int | None, sight: Sight
) -> dict[str, Any]:
    """The window at the end of the log, or around the offset ``at``.

    Args:
        sight: what the reader may see of messages.

    Raises:
        EngineError: the partition does not exist or its broker cannot be read.
    """
    status = engine.log.status(partition)
    return window_of(engine, status, read_blockers(engine, status), at=at, sight=sight)


def window_of(
    engine: Engine,
    status: PartitionStatus,
    blockers: Iterable[Blocker],
    *,
    at: int | None,
    sight: Sight,
) -> dict[str, Any]:
    """As :func:`read_window`, with a status and blockers that have been read already. Entries after
    the status are left out: they come with the next frame.

    What is past the end is the end, which the page follows; ``missed`` says so.

    Raises:
        EngineError: the partition does not exist or its broker cannot be read.
    """
    missed = _missed(status, at)
    at = None if at is not None and at > status.last_offset else at
    base = _base(status, at)
    fence = (status.stable_position + 1) // COLUMNS * COLUMNS
    table = _table(status, base, at)
    ranges = merged([(base, ROWS * COLUMNS), (fence, COLUMNS), (table, TABLE_ENTRIES)])
    messages = [
        message
        for start, number in ranges
        for message in read_entries(engine, status, start, number)
    ]
    ongoing = spans_of(blockers)
    drawn_until = min(base + ROWS * COLUMNS, status.last_offset + 1)
    ended, samples = engine.log.look(
        status.partition, questions.indexed(base, drawn_until), questions.history(HISTORY)
    )
    return {
        "seq": position_of(status, ongoing),
        "columns": COLUMNS,
        "rows": ROWS,
        "base": base,
        "at": at,
        "missed": missed,
        "table": table,
        "export": _export(status, base, at),
        "pinned": at is None and fence + COLUMNS < base,
        "entries": [packed(message, sight) for message in messages],
        "txns": _states(messages) | _ended(ended) | ongoing,
        "summary": summary_of(status),
        "history": _history(samples),
    }


def position_of(status: PartitionStatus, ongoing: dict[str, Span]) -> str:
    """The stream position. Everything that happens in a partition moves its last offset, except for
    states that only the coordinators know, and when its topic is made anew; the second half of the
    position stands for those."""
    states = [[txn_id, span[0]] for txn_id, span in ongoing.items()]
    own = [status.broker, status.partition_id, status.stable_position]
    return f"{status.last_offset}.{digest(own, states)}"


def summary_of(status: PartitionStatus) -> dict[str, Any]:
    """The figures above the strip; ``now`` is the broker's clock in milliseconds."""
    return {
        "last": status.last_offset,
        "stable": status.stable_position,
        "start": status.log_start_offset,
        "ongoing": status.ongoing_txns,
        "aborted": status.aborted_txns,
        "blocker": status.blocker and str(status.blocker.txn_id),
        "now": epoch_ms(status.now),
    }


def read_entries(
    engine: Engine, status: PartitionStatus, start: int, number: int
) -> list[StoredMessage]:
    """Up to ``number`` entries from ``start`` on, up to the status's last offset."""
    start = max(start, status.log_start_offset)
    number = min(number, status.last_offset - start + 1)
    if number <= 0:
        return []
    end = start + number
    found = engine.log.browse(status.partition, start, number).messages
    return [message for message in found if message.offset < end]


def read_blockers(engine: Engine, status: PartitionStatus) -> tuple[Blocker, ...]:
    """Transactions with data and without a marker here; nothing is read when the status has
    none."""
    return engine.inspect.blockers(status.partition, MAX_ONGOING) if status.ongoing_txns else ()


def spans_of(blockers: Iterable[Blocker]) -> dict[str, Span]:
    """What the page draws of the transactions that hold the stable position back."""
    spans: dict[str, Span] = {}
    for blocker in blockers:
        one, header = blocker.ongoing, blocker.transaction
        spans[str(one.txn_id)] = [
            "OPEN" if header is None else str(header.status),
            one.first_offset,
            one.last_offset,
            one.messages,
            None if header is None else header.owner,
            epoch_ms((header and header.opened_at) or one.first_append_at),
            None if header is None else header.timeout_ms,
        ]
    return spans


def _history(samples: Iterable[PositionSample]) -> list[list[int]]:
    """Samples of the two positions as ``[ms, last, stable]``."""
    return [[epoch_ms(one.at), one.last_offset, one.stable_position] for one in samples]


def packed(message: StoredMessage, sight: Sight) -> Entry:
    """An entry in the form that the page reads. Frames are shared by many readers, so it has no
    payload, and the key only as far as all of them may see it."""
    return [
        message.offset,
        _KIND[message.kind],
        None if message.txn_id is None else str(message.txn_id),
        key_shown(message.key, sight.rules),
        epoch_ms(message.publish_time),
        len(message.payload),
    ]


def merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of ``(start, number)`` in order, with adjoining ones merged."""
    result: list[tuple[int, int]] = []
    for start, number in sorted(ranges):
        if result and start <= sum(result[-1]):
            first, known = result[-1]
            result[-1] = (first, max(known, start + number - first))
        else:
            result.append((start, number))
    return result


def _base(status: PartitionStatus, at: int | None) -> int:
    """The first offset of the strip, so that it has whole rows and the last row has the end of the
    log."""
    last_row = max(0, status.last_offset) // COLUMNS
    row = last_row - ROWS + 1
    if at is not None:
        row = min(row, at // COLUMNS - 1)
    return max(row, status.log_start_offset // COLUMNS, 0) * COLUMNS


def _missed(status: PartitionStatus, at: int | None) -> str | None:
    """On which side the offset lies outside of the log: "start", "end", or None."""
    if at is None or status.last_offset < 0:
        return None
    if at > status.last_offset:
        return "end"
    return "start" if at < status.log_start_offset else None


def _table(status: PartitionStatus, base: int, at: int | None) -> int:
    """The first offset of the table of entries; the page's script moves it on by the same rule."""
    if at is None:
        return min(status.stable_position - TABLE_BEFORE, status.last_offset - TABLE_ENTRIES + 1)
    end = min(base + ROWS * COLUMNS, status.last_offset + 1)
    return max(min(at - TABLE_BEFORE, end - TABLE_ENTRIES), base, status.log_start_offset)


def _export(status: PartitionStatus, base: int, at: int | None) -> tuple[int, int] | None:
    """The first and last offset that an export is suggested for: the strip's, or the end of the
    log; None when there is nothing."""
    start, last = status.log_start_offset, status.last_offset
    if last < start:
        return None
    if at is None:
        return max(start, last - EXPORTED + 1), last
    return max(start, base), min(last, base + ROWS * COLUMNS - 1)


def _states(messages: Iterable[StoredMessage]) -> dict[str, Span]:
    """The states of the entries' transactions, as far as the entries themselves tell."""
    spans: dict[str, Span] = {}
    for message in messages:
        if message.txn_id is None:
            continue
        is_data = message.kind is EntryKind.DATA
        span = spans.setdefault(
            str(message.txn_id), ["", message.offset, message.offset, 0, None, None, None]
        )
        span[0] = _STATE[message.visibility if is_data else message.kind]
        span[2] = message.offset
        span[3] += is_data
    return spans


def _ended(rows: Iterable[IndexedTxn]) -> dict[str, Span]:
    """The exact spans of the transactions that ended in the drawn range, the newest marker
    first."""
    newest = sorted(rows, key=lambda row: row.last_offset, reverse=True)[:MAX_ENDED]
    return {
        str(row.txn_id): [
            str(row.outcome), row.first_offset, row.last_offset, None, None, None, None,
        ]
        for row in newest
    }  # fmt: skip
