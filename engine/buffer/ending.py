"""Ending transactions on partitions of either buffer: PIP-31's EndTxnOnPartition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from engine.model.transaction import EndCommand, Ended, EndResult
from engine.model.txn_id import TxnID, id_lists
from engine.model.txn_status import TxnAction
from engine.postgres.prepared import BOOL, INT4, INT8, TEXT, Prepared, array_of
from engine.postgres.session import Row, Session
from engine.sql import queries

_INT8S, _INT4S = array_of(INT8), array_of(INT4)
_END_TXNS_ON = Prepared(
    "end_txns_on",
    queries("broker")["end_txns_on"],
    {
        "topic_ids": _INT8S,
        "numbers": _INT4S,
        "upto": _INT4S,
        "tc_ids": _INT4S,
        "sequences": _INT8S,
        "aborts": array_of(BOOL),
        "mark_tcs": _INT4S,
        "marks": _INT8S,
    },
    [TEXT, INT8, INT8, INT8, INT8],
)
#: What a further row says (functions/broker/end_txns.sql).
_ORPHANS = "orphans"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEnds:
    """The commands for one partition of a broker, in the order of decision."""

    topic_id: int
    number: int
    commands: Sequence[EndCommand]


def end_txns_on(
    session: Session, ends: Sequence[PartitionEnds], low_water_marks: Mapping[int, int]
) -> Ended:
    """End many transactions on some partitions of a broker that participate in them, by one
    statement. Repeating a command changes nothing. Source: semantics §3, §4.

    On a sidecar-buffered partition the result of a commit has the offsets that the messages got.
    That of an abort has no marker's offset, since the marker is in the sidecar log; when the
    transaction has no messages, there is no marker at all.

    Args:
        ends: the commands by partition, in the order in which the partitions' heads are locked.
        low_water_marks: of the coordinators, by tc_id. One that would pass what is still ongoing
            stays (``orphans_left``).

    Returns:
        A result for each command, in their order. What went wrong is in ``error`` and is not
        raised, so that one partition does not hold up the others: ``missing``, ``recovering``,
        ``offline``, or ``opposite`` (it has been ended the other way, which must never happen).
    """
    commands = [command for each in ends for command in each.commands]
    marks = sorted(low_water_marks.items())
    rows = session.ask(
        _END_TXNS_ON,
        [each.topic_id for each in ends],
        [each.number for each in ends],
        list(accumulate(len(each.commands) for each in ends)),
        *id_lists(command.txn_id for command in commands).values(),
        [command.action is TxnAction.ABORT for command in commands],
        [tc_id for tc_id, _ in marks],
        [mark for _, mark in marks],
    )
    answers = [row for row in rows if row[0] != _ORPHANS]
    results = [
        EndResult(
            txn_id=command.txn_id,
            error=error,
            first_offset=first_offset,
            last_offset=last_offset,
            messages=messages,
            marker_offset=marker_offset,
        )
        for command, (error, first_offset, last_offset, messages, marker_offset) in zip(
            commands, answers, strict=True
        )
    ]
    return Ended(results, orphans_left=len(answers) < len(rows))


def end_orphans(
    session: Session, partition_id: int, actions: Mapping[TxnID, TxnAction]
) -> list[Row]:
    """End transactions in a partition that are open there though their coordinators do not count on
    it: each as it was decided, or by an abort. The caller holds the partition's record, and has
    made sure that it is there and online. Source: semantics §4.

    Returns:
        A row with ``tc_id``, ``sequence`` and ``marker_offset`` for each that was open; what is not
        open is passed over (functions/broker/end_orphans.sql).
    """
    return session.all(
        "end_orphans",
        partition_id=partition_id,
        **id_lists(actions),
        aborts=[action is TxnAction.ABORT for action in actions.values()],
    )


def end_if_online(
    session: Session, partition_id: int, actions: Mapping[TxnID, TxnAction]
) -> list[Row]:
    """As :func:`end_orphans`, without conditions: of a partition that is gone or offline nothing is
    ended, since bringing it online does it."""
    record = session.one("hold_partition", partition_id=partition_id)
    if record is None or not record.online:
        return []
    return end_orphans(session, partition_id, actions)
