"""What operators do to partitions. Every call is in the audit log, including refused ones."""

from __future__ import annotations

from engine.model.txn_id import TxnID
from txnconsole.access.roles import Permission
from txnconsole.api.decoding import named
from txnconsole.api.endpoint import PartitionEndpoint
from txnconsole.api.operation import Call, NoQuery, Shape, operation
from txnconsole.api.structs.partition_operations import (
    AbortedOrphan,
    ForceAbort,
    OnlineAgain,
    OperatePartition,
    TruncatePartition,
    Truncation,
)
from txnconsole.api.structs.partitions import PartitionSummary
from txnconsole.enginedb.wiring import engine
from txnconsole.operations import partitions, transactions


class OperationEndpoint(PartitionEndpoint):
    """An address of one operator call."""

    def summary(self) -> PartitionSummary:
        return PartitionSummary.of(engine().log.status(self.partition))


class OfflinePartition(OperationEndpoint):
    @operation(
        "takePartitionOffline",
        Permission.PARTITION_OPERATE,
        Shape(keyed=True, body=OperatePartition, answer=PartitionSummary),
        summary="Take a partition offline",
    )
    def post(self, call: Call[OperatePartition, NoQuery]) -> PartitionSummary:
        """It serves nothing until it is online again; ends of transactions wait for it."""
        partitions.take_offline(self.actor(), self.partition, call.body.reason)
        return self.summary()


class OnlinePartition(OperationEndpoint):
    @operation(
        "bringPartitionOnline",
        Permission.PARTITION_OPERATE,
        Shape(keyed=True, body=OperatePartition, answer=OnlineAgain),
        summary="Bring a partition online",
    )
    def post(self, call: Call[OperatePartition, NoQuery]) -> OnlineAgain:
        """First, decisions on transactions that are still open in it are carried out."""
        ended = partitions.bring_online(self.actor(), self.partition, call.body.reason)
        return OnlineAgain(
            partition=str(self.partition), ended_transactions=[str(txn_id) for txn_id in ended]
        )


class SnapshotOfPartition(OperationEndpoint):
    @operation(
        "snapshotPartition",
        Permission.PARTITION_OPERATE,
        Shape(keyed=True, body=OperatePartition, answer=PartitionSummary),
        summary="Snapshot a partition's buffer",
    )
    def post(self, call: Call[OperatePartition, NoQuery]) -> PartitionSummary:
        """Recovery will start from it; `GET` of the partition shows it."""
        partitions.snapshot(self.actor(), self.partition, call.body.reason)
        return self.summary()


class RecoveryOfPartition(OperationEndpoint):
    @operation(
        "recoverPartition",
        Permission.PARTITION_OPERATE,
        Shape(keyed=True, body=OperatePartition, answer=PartitionSummary),
        summary="Rebuild a partition's state",
    )
    def post(self, call: Call[OperatePartition, NoQuery]) -> PartitionSummary:
        """Discards all derived state and rebuilds it from the newest valid snapshot and the log."""
        partitions.recover(self.actor(), self.partition, call.body.reason)
        return self.summary()


class TruncationOfPartition(OperationEndpoint):
    @operation(
        "truncatePartition",
        Permission.PARTITION_OPERATE,
        Shape(keyed=True, body=TruncatePartition, answer=Truncation),
        summary="Truncate a partition's log",
    )
    def post(self, call: Call[TruncatePartition, NoQuery]) -> Truncation:
        """Deletes everything from `offset` on, in whole batches. This cannot be undone.

        409 `InvalidPartitionState` unless the partition is offline, 409 `TopicInUse` when an open
        transaction has messages or acknowledgements there. Cursors move back with the log.
        """
        body = call.body
        truncated = partitions.truncate(self.actor(), self.partition, body.offset, body.reason)
        return Truncation.of(self.partition, truncated)


class OrphansOfPartition(OperationEndpoint):
    @operation(
        "forceAbort",
        Permission.PARTITION_OPERATE,
        Shape(keyed=True, body=ForceAbort, answer=AbortedOrphan),
        summary="Abort an orphan in a partition",
    )
    def post(self, call: Call[ForceAbort, NoQuery]) -> AbortedOrphan:
        """Only when its coordinator does not know the transaction, or says ABORTED.

        Otherwise 409 `InvalidTxnStatus`. If the transaction was committed, the commit has then been
        carried out in the partition, and `replayed` says so.
        """
        txn_id = named("txn_id", TxnID.parse, call.body.txn_id)
        marker = transactions.force_abort(self.actor(), self.partition, txn_id, call.body.reason)
        return AbortedOrphan(
            partition=str(self.partition), txn_id=str(txn_id), marker_offset=marker
        )
