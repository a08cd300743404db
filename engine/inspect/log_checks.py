"""Invariants of a partition's log, index and head, each from one snapshot of its broker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from engine.buffer.recovery import newest_good, rebuilt
from engine.inspect.checks import Check, check
from engine.inspect.reading import View
from engine.log.offloaded import OffloadedFiles
from engine.log.rows import txn_of
from engine.model.buffer_state import BufferState, OngoingSpan
from engine.model.errors import SegmentUnreadable
from engine.model.topic import BufferKind
from engine.model.topic_name import PartitionName
from engine.model.txn_id import id_lists
from engine.postgres.database import Database
from engine.postgres.session import Params, Row

#: How many files of offloaded segments one step looks at; in an object store each takes a while.
FILES = 50


class LogReport(NamedTuple):
    """The checks of a step on a log, the offloaded segments that end in what it has looked at, and
    where to go on, None at the end of the log."""

    checks: list[Check]
    offloaded: list[Row]
    position: int | None


def check_log(view: View, position: int, budget: int) -> LogReport:
    """Check the ``budget`` entries from an offset on, or up to the end of the :data:`FILES`-th
    offloaded segment, and the head."""
    start = max(position, view.head.log_start_offset)
    [window], files = view.together(
        ("log_window", {"from_offset": start, "limit": budget}),
        ("offloaded_from", {"from_offset": start, "limit": FILES}),
    )
    last = int(window.last_offset)
    # At the end of this snapshot the pass is whole; entries appended later are the next pass's.
    resume = last + 1 if window.entries == budget else None
    if len(files) == FILES and files[-1].last_offset < last:
        last = files[-1].last_offset
        resume = last + 1
    span: Params = {"from_offset": start, "to_offset": last}
    bounded: Params = {**span, "log_start": view.head.log_start_offset}
    of_buffer = _checks_of_buffer(view, span, bounded)
    gaps, heads, samples, markers, damaged, *others = view.together(
        ("gaps", bounded),
        ("head_and_ongoing", {}),
        ("samples_backwards", {}),
        ("odd_markers", span),
        ("damaged_batches", span),
        *(statement for statements in of_buffer.values() for statement in statements),
    )
    holes: list[Row | dict[str, object]] = [*gaps]
    if resume is None and last < view.last_offset:
        holes.append({"last_entry_ends_at": last, "last_offset": view.last_offset})
    answers = iter(others)
    subject = str(view.partition)
    checks = [
        check(1, "stable_position", subject, [*wrong_heads(heads), *samples]),
        check(2, "dense_offsets", subject, holes, position=resume),
        check(2, "one_marker", subject, markers, position=resume),
        check(3, "readable_batches", subject, damaged, position=resume),
        *(
            check(
                invariant,
                name,
                subject,
                [row for _ in statements for row in next(answers)],
                position=resume,
            )
            for (invariant, name), statements in of_buffer.items()
        ),
    ]
    return LogReport(checks, [row for row in files if row.last_offset <= last], resume)


def check_files(
    offloaded: OffloadedFiles, broker: Database, partition: PartitionName, report: LogReport
) -> Check:
    """Check that the files of a step's offloaded segments are there, whole and nobody else's, as
    far as that is seen without reading them. They are looked at after the snapshot, so that it is
    not held meanwhile: what has been dropped since is not missed."""
    faults: dict[UUID, dict[str, object]] = {}
    skipped = None
    for row in report.offloaded:
        name = f"{row.file}.parquet"
        try:
            fault = offloaded.fault(name, row.file_bytes)
        except SegmentUnreadable as error:
            skipped = error.message  # So it would be of all others, after a while each.
            break
        if fault is not None:
            where = {"first_offset": row.first_offset, "last_offset": row.last_offset}
            faults[row.file] = {"file": name, "fault": fault, **where}
    if faults:
        with broker.session() as session:
            there = {row.file for row in session.all("still_offloaded", files=list(faults))}
        faults = {file: fault for file, fault in faults.items() if file in there}
    position = report.position
    return check(
        3, "offloaded_files", str(partition), faults.values(), position=position, skipped=skipped
    )


def _checks_of_buffer(
    view: View, span: Params, bounded: Params
) -> dict[tuple[int, str], list[tuple[str, Params]]]:
    """The checks that depend on the partition's buffer, by invariant and name, with the statements
    whose rows are counter-examples."""
    if view.buffer == BufferKind.SIDECAR:
        # A reader gets for each commit marker the messages of its transaction and no others, under
        # whichever key of the sidecar log they are.
        decided = [("undecided_in_partition", span), ("odd_commits", span)]
        return {(3, "readable_is_decided"): decided}
    below = {**span, "stable_position": view.stable_position}
    return {
        (3, "readable_is_decided"): [("undecided_below_stable", below)],
        (6, "index_rows"): [("odd_index_rows", bounded), ("unindexed_markers", span)],
    }


def wrong_heads(rows: list[Row]) -> list[Row]:
    """Of rows of ``head_and_ongoing``, the first if the head does not agree with the ongoing
    transactions."""
    return [
        row
        for row in rows[:1]
        if (row.first_ongoing_offset, row.ongoing_txns) != (row.lowest, row.ongoing)
    ]


def check_rebuild(view: View, budget: int, *, name: str = "snapshot_and_log") -> Check:
    """Check that snapshot + log = live state: rebuild the state in memory, as recovery would, and
    compare."""
    snapshot, row = newest_good(view.all("snapshots"), view.partition)
    subject = str(PartitionName(view.partition.topic, view.partition.number))
    distance = view.one("log_window", from_offset=snapshot.position + 1, limit=budget)
    if distance is not None and distance.entries == budget:
        more = f"more than {budget} entries lie after the newest good snapshot"
        return check(7, name, subject, (), skipped=more)
    state, end = rebuilt(view.session, view.partition_id, snapshot)
    if view.partition.is_sidecar:
        state = _mended(view, state)
    found = list(_differences(view, state, end))
    if row is not None:
        found = [{"snapshot_position": snapshot.position} | each for each in found]
    return check(7, name, subject, found)


def _mended(view: View, state: BufferState) -> BufferState:
    """The rebuilt state of a sidecar log without transactions that have no entries left in it,
    because compaction has taken them and their marker out since the snapshot. Recovery does the
    same (functions/broker/mend_sidecar.sql)."""
    txns = list(state.ongoing)
    left = view.all("with_entries", **id_lists(txns)) if txns else []
    still = {txn_of(row) for row in left}
    ongoing = {txn: span for txn, span in state.ongoing.items() if txn in still}
    return replace(state, ongoing=ongoing)


def _differences(view: View, state: BufferState, end: Row) -> Iterator[dict[str, object]]:
    head = view.head
    expected = {
        "next_offset": state.position + 1,
        "stable_position": state.stable_position,
        "log_start_offset": end.log_start_offset,
        "ledger_id": state.ledger_id,
        "segment_first_offset": end.segment_first_offset,
        "ongoing_txns": len(state.ongoing),
        "aborted_txns": state.aborted_txns,
    }
    if not view.partition.is_sidecar:  # compaction takes entries out and leaves the totals
        expected |= {"segment_entries": state.segment_entries, "segment_bytes": state.segment_bytes}
    for field, rebuilt_value in expected.items():
        live = getattr(head, field)
        if live != rebuilt_value:
            yield {"field": field, "live": live, "rebuilt": rebuilt_value}
    live_spans = {
        txn_of(row): (row.first_offset, row.last_offset, row.messages)
        for row in view.all("ongoing_in_log")
    }
    rebuilt_spans = {txn: _span(span) for txn, span in state.ongoing.items()}
    for txn_id in sorted(live_spans.keys() | rebuilt_spans.keys()):
        live, again = live_spans.get(txn_id), rebuilt_spans.get(txn_id)
        if live != again:
            yield {
                "txn_id": str(txn_id),
                "live": None if live is None else list(live),
                "rebuilt": None if again is None else list(again),
            }


def _span(span: OngoingSpan) -> tuple[int, int, int]:
    return span.first_offset, span.last_offset, span.messages
