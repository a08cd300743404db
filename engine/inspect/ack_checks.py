"""Invariants of the subscriptions in one partition, from one snapshot of its broker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from engine.inspect.checks import EXAMPLES, Check
from engine.inspect.reading import View
from engine.model.cursor import Cursor
from engine.model.ranges import Ranges
from engine.postgres.database import Row

_Holder = tuple[str, str]  # a transaction's id and the kind of its acknowledgement


def check_acks(view: View, budget: int) -> list[Check]:
    """No message is in two transactions' pending acks, nor both deleted and pending; and the
    pending-ack log tells the same pending acks."""
    twice: list[dict[str, object]] = []
    untold: list[dict[str, object]] = []
    too_long: list[str] = []
    for row in view.all("cursors_of_partition", topic_id=view.topic_id):
        key = {"subscription_id": row.subscription_id}
        pending = view.all("pending_acks", **key)
        cursor = Cursor(mark_delete=row.mark_delete, acked=row.acked)
        named = {"subscription": row.name}
        twice += [named | each for each in _claimed_twice(cursor, pending)]
        steps = view.all("ack_steps", **key, limit=budget)
        if len(steps) == budget:
            too_long.append(row.name)
            continue
        untold += [named | each for each in _untold(cursor, pending, steps)]
    subject = str(view.partition)
    return [
        Check(
            invariant=4,
            name="pending_once",
            subject=subject,
            counter_examples=tuple(twice[:EXAMPLES]),
        ),
        Check(
            invariant=4,
            name="pending_ack_log",
            subject=subject,
            counter_examples=tuple(untold[:EXAMPLES]),
            skipped=f"the log of {', '.join(too_long)} has more than {budget} steps"
            if too_long
            else None,
        ),
    ]


def _claimed_twice(cursor: Cursor, pending: list[Row]) -> Iterator[dict[str, object]]:
    seen: dict[str, Ranges] = {}
    for row in pending:
        txn_id = f"{row.tc_id}:{row.sequence}"
        deleted = row.ranges - cursor.undeleted(row.ranges)
        if deleted:
            yield {"txn_id": txn_id, "deleted_and_pending": _text(deleted)}
        for other, ranges in seen.items():
            both = row.ranges & ranges
            if other != txn_id and both:
                yield {"txn_id": txn_id, "other_txn_id": other, "pending_twice": _text(both)}
        seen[txn_id] = seen.get(txn_id, Ranges()) | row.ranges


def _untold(cursor: Cursor, pending: list[Row], steps: list[Row]) -> Iterator[dict[str, object]]:
    told = told_by(steps)
    held: dict[_Holder, Ranges] = {
        (f"{row.tc_id}:{row.sequence}", row.ack_type): row.ranges for row in pending
    }
    for holder in sorted(told.keys() | held.keys()):
        # The log is trimmed behind the mark-delete position.
        in_log = cursor.undeleted(told.get(holder, Ranges()))
        now = cursor.undeleted(held.get(holder, Ranges()))
        if in_log != now:
            yield {
                "txn_id": holder[0],
                "ack_type": holder[1],
                "pending": _text(now),
                "by_the_log": _text(in_log),
            }


def told_by(steps: Iterable[Row]) -> Mapping[_Holder, Ranges]:
    """What transactions hold after the steps of a pending-ack log."""
    held: dict[_Holder, Ranges] = defaultdict(Ranges)
    for step in steps:
        holder = (f"{step.tc_id}:{step.sequence}", step.ack_type)
        held[holder] = (
            held[holder] | step.ranges if step.op == "ACK" else held[holder] - step.ranges
        )
    return held


def _text(ranges: Ranges) -> str:
    shown = ", ".join(f"{lower}-{upper - 1}" for lower, upper in ranges.runs[:10])
    return shown + (", …" if len(ranges.runs) > 10 else "")
