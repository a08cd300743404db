"""Ending transactions on partitions of either buffer: PIP-31's EndTxnOnPartition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.model.transaction import EndCommand, EndResult
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from engine.postgres.database import Session


def end_txns(
    session: Session,
    partition_id: int,
    commands: Sequence[EndCommand],
    low_water_marks: Mapping[int, int],
    *,
    registered: bool = True,
) -> list[EndResult]:
    """End many transactions on one partition, exactly once each however often it comes.

    ``low_water_marks`` are those of the coordinators (by tc_id); ongoing transactions at or below
    are aborted, a chain and not only the head. With ``registered`` the partition is a participant,
    so each end leaves a marker; without, an abort of a transaction never seen here is only
    remembered. Source: semantics §3, §4.

    On a sidecar-buffered partition a commit answers the offsets that its messages have got; the
    marker of an abort is in the sidecar log, so it answers none, and none is written for an abort
    of a transaction without messages.

    Results carry ``error`` ``recovering``, ``offline`` or ``opposite`` (it has been ended the other
    way, which must never happen) instead of raising, so that one partition delays only itself.
    """
    marks = sorted(low_water_marks.items())
    rows = session.all(
        "end_txns",
        partition_id=partition_id,
        tc_ids=[command.txn_id.tc_id for command in commands],
        sequences=[command.txn_id.sequence for command in commands],
        aborts=[command.action is TxnAction.ABORT for command in commands],
        registered=registered,
        mark_tcs=[tc_id for tc_id, _ in marks],
        marks=[mark for _, mark in marks],
    )
    return [
        EndResult(
            txn_id=TxnID(row.tc_id, row.sequence),
            error=row.error,
            first_offset=row.first_offset,
            last_offset=row.last_offset,
            messages=row.messages,
            marker_offset=row.marker_offset,
        )
        for row in rows
    ]
