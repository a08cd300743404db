"""Operator calls on partitions."""

from __future__ import annotations

from engine.model.partition import Truncated
from engine.model.topic_name import PartitionName
from txnconsole.api.structs.fields import (
    Answer,
    Body,
    Offset,
    PartitionText,
    Reason,
    Text,
    TxnIDText,
)


class OperatePartition(Body):
    reason: Text = ""


class TruncatePartition(Body):
    offset: Offset
    reason: Reason


class ForceAbort(Body):
    txn_id: TxnIDText
    reason: Reason


class OnlineAgain(Answer):
    """A partition that is online again; what had been decided meanwhile was carried out first."""

    partition: PartitionText
    ended_transactions: list[TxnIDText]


class Truncation(Answer):
    """``next_offset`` is where the log goes on. Whole batches are cut, so it may be lower than
    asked for. ``reopened_transactions`` get their outcome again when the partition goes online."""

    partition: PartitionText
    next_offset: int
    dropped_entries: int
    reopened_transactions: list[TxnIDText]

    @classmethod
    def of(cls, partition: PartitionName, truncated: Truncated) -> Truncation:
        return cls(
            partition=str(partition),
            next_offset=truncated.next_offset,
            dropped_entries=truncated.entries,
            reopened_transactions=[str(txn_id) for txn_id in truncated.reopened],
        )


class AbortedOrphan(Answer):
    partition: PartitionText
    txn_id: TxnIDText
    marker_offset: int
