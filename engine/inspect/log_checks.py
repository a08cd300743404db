"""Invariants of a partition's log, index and head, each from one snapshot of its broker."""

from __future__ import annotations

from collections.abc import Iterator

from engine.buffer.recovery import newest_good, rebuilt
from engine.inspect.checks import EXAMPLES, Check, evidence
from engine.inspect.reading import View
from engine.model.buffer_state import BufferState, OngoingSpan
from engine.model.txn_id import TxnID
from engine.postgres.database import Row


def check_log(view: View, position: int, budget: int) -> tuple[list[Check], int | None]:
    """Check the ``budget`` entries from an offset on, and the head; answers where to go on."""
    start = max(position, view.head.log_start_offset)
    window = view.one("log_window", from_offset=start, limit=budget)
    last = int(window.last_offset) if window else start - 1
    # Whole: nothing is left in this snapshot. What is appended later is the next pass's.
    resume = last + 1 if window and window.entries == budget else None
    span = {"from_offset": start, "to_offset": last}
    gaps = [evidence(row) for row in view.all("gaps", **span, log_start=view.head.log_start_offset)]
    if resume is None and last < view.last_offset:
        gaps.append({"last_entry_ends_at": last, "last_offset": view.last_offset})
    checks = [
        _check(view, 1, "stable_position", _head(view), None),
        Check(
            invariant=2,
            name="dense_offsets",
            subject=str(view.partition),
            counter_examples=tuple(gaps[:EXAMPLES]),
            position=resume,
        ),
        _check(view, 2, "one_marker", view.all("odd_markers", **span), resume),
    ]
    if view.buffer == "marker":
        undecided = view.all("undecided_below_stable", **span, stable_position=view.stable_position)
        indexed = [
            *view.all("odd_index_rows", **span, log_start=view.head.log_start_offset),
            *view.all("unindexed_markers", **span),
        ]
        checks.append(_check(view, 3, "readable_is_decided", undecided, resume))
        checks.append(_check(view, 6, "index_rows", indexed, resume))
    return checks, resume


def _head(view: View) -> list[Row]:
    row = view.one("head_and_ongoing")
    odd = row is not None and (row.first_ongoing_offset, row.ongoing_txns) != (
        row.lowest,
        row.ongoing,
    )
    return [*([row] if odd else []), *view.all("samples_backwards")]


def check_rebuild(view: View, budget: int) -> Check:
    """Snapshot + log = live state: rebuild it in memory as recovery would, and compare."""
    snapshot, row = newest_good(view.all("snapshots"), view.partition)
    name, subject = "snapshot_and_log", str(view.partition)
    distance = view.one("log_window", from_offset=snapshot.position + 1, limit=budget)
    if distance is not None and distance.entries == budget:
        return Check(
            invariant=7,
            name=name,
            subject=subject,
            skipped=f"more than {budget} entries lie after the newest good snapshot",
        )
    state, end = rebuilt(view.session, view.partition_id, snapshot)
    found = list(_differences(view, state, end))
    if row is not None:
        found = [{"snapshot_position": snapshot.position} | each for each in found]
    return Check(invariant=7, name=name, subject=subject, counter_examples=tuple(found[:EXAMPLES]))


def _differences(view: View, state: BufferState, end: Row) -> Iterator[dict[str, object]]:
    head = view.head
    expected = {
        "next_offset": state.position + 1,
        "stable_position": state.stable_position,
        "log_start_offset": end.log_start_offset,
        "ledger_id": state.ledger_id,
        "segment_first_offset": end.segment_first_offset,
        "segment_entries": state.segment_entries,
        "segment_bytes": state.segment_bytes,
        "ongoing_txns": len(state.ongoing),
        "aborted_txns": state.aborted_txns,
    }
    for field, rebuilt_value in expected.items():
        live = getattr(head, field)
        if live != rebuilt_value:
            yield {"field": field, "live": live, "rebuilt": rebuilt_value}
    live_spans = {
        TxnID(row.tc_id, row.sequence): (row.first_offset, row.last_offset, row.messages)
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


def _check(view: View, invariant: int, name: str, rows: list[Row], position: int | None) -> Check:
    return Check(
        invariant=invariant,
        name=name,
        subject=str(view.partition),
        counter_examples=tuple(evidence(row) for row in rows[:EXAMPLES]),
        position=position,
    )
