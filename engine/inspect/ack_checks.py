"""Invariants of the subscriptions in one partition, from one snapshot of its broker."""

from __future__ import annotations

from collections.abc import Iterator

from engine.inspect.checks import Check, check, evidence
from engine.inspect.reading import View
from engine.log.rows import txn_of
from engine.model.cursor import Cursor, replay
from engine.model.ranges import NOTHING, Ranges
from engine.model.subscription import AckOp, AckStep, AckType
from engine.model.txn_id import TxnID, id_lists
from engine.postgres.session import Row


def check_acks(view: View, budget: int) -> list[Check]:
    """Check that no message is in two transactions' pending acks, nor both deleted and pending;
    that the pending-ack log agrees with the pending acks; and that the fence knows every end that
    the log tells of."""
    twice: list[dict[str, object]] = []
    unfenced: list[dict[str, object]] = []
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
        tentative = view.all("tentative_acks", **key)
        untold += [named | each for each in _untold(cursor, pending, steps, tentative)]
        ends = view.all("unfenced_acks", **key, **id_lists(_ended(steps)))
        unfenced += [named | evidence(each) for each in ends]
    subject = str(view.partition)
    skipped = f"the log of {', '.join(too_long)} has more than {budget} steps" if too_long else None
    return [
        check(2, "ack_fence", subject, unfenced, skipped=skipped),
        check(4, "pending_once", subject, twice),
        check(4, "pending_ack_log", subject, untold, skipped=skipped),
    ]


def _ended(steps: list[Row]) -> set[TxnID]:
    """The transactions whose end the log tells of. What a refused call has given back is no end."""
    return {txn_of(step) for step in steps if step.op != AckOp.ACK and step.call_id == 0}


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


def _untold(
    cursor: Cursor, pending: list[Row], steps: list[Row], tentative: list[Row]
) -> Iterator[dict[str, object]]:
    replayed = replay(map(_step, steps), cursor.mark_delete)
    by_log = {(ack.txn_id, ack.ack_type): ack.ranges for ack in replayed}
    stands = {(txn_of(row), AckType(row.ack_type)): row.ranges for row in pending}
    for key in sorted(by_log.keys() | stands.keys()):
        if stands.get(key) != by_log.get(key):
            yield {
                "txn_id": str(key[0]),
                "ack_type": key[1].value,
                "pending": _text(stands.get(key, NOTHING)),
                "by_the_log": _text(by_log.get(key, NOTHING)),
            }
    for row in tentative:
        held = Ranges.union(
            ack.ranges for ack in pending if (ack.tc_id, ack.sequence) == (row.tc_id, row.sequence)
        )
        if row.ranges - held:
            yield {
                "txn_id": f"{row.tc_id}:{row.sequence}",
                "call_id": row.call_id,
                "tentative_not_held": _text(row.ranges - held),
            }


def _step(row: Row) -> AckStep:
    op, ack_type = AckOp(row.op), AckType(row.ack_type)
    return AckStep(txn_id=txn_of(row), op=op, ack_type=ack_type, ranges=row.ranges)


def _text(ranges: Ranges) -> str:
    shown = ", ".join(f"{lower}-{upper - 1}" for lower, upper in ranges.runs[:10])
    return shown + (", …" if len(ranges.runs) > 10 else "")
