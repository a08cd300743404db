"""What operators do to partitions; every call is in the audit log, refused ones too."""

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
    TakeSnapshot,
    TruncatePartition,
    Truncation,
)
from txnconsole.api.structs.partitions import PartitionSummary
from txnconsole.audit.chain import Change, Facts, recorded
from txnconsole.enginedb.wiring import engine


class OperationEndpoint(PartitionEndpoint):
    """An address of one operator call."""

    def change(self, action: str, reason: str) -> Change:
        return Change(
            self.actor(), f"partition.{action}", f"partition:{self.partition}", reason=reason
        )

    def summary(self) -> PartitionSummary:
        return PartitionSummary.of(engine().log.status(self.partition))

    def positions(self) -> Facts:
        """What a call may change, for the audit log."""
        summary = self.summary()
        return {
            "state": summary.state,
            "last_offset": summary.last_offset,
            "stable_position": summary.stable_position,
        }


class OfflinePartition(OperationEndpoint):
    @operation(
        "takePartitionOffline",
        Permission.PARTITION_OPERATE,
        Shape(keyed=True, body=OperatePartition, answer=PartitionSummary),
        summary="Take a partition offline",
    )
    def post(self, call: Call[OperatePartition, NoQuery]) -> PartitionSummary:
        """It serves nothing until it is online again; ends of transactions wait."""
        with recorded(self.change("offline", call.body.reason)) as recording:
            engine().partitions.take_offline(self.partition, reason=call.body.reason)
            recording.after = self.positions()
        return self.summary()


class OnlinePartition(OperationEndpoint):
    @operation(
        "bringPartitionOnline",
        Permission.PARTITION_OPERATE,
        Shape(keyed=True, body=OperatePartition, answer=OnlineAgain),
        summary="Bring a partition online",
    )
    def post(self, call: Call[OperatePartition, NoQuery]) -> OnlineAgain:
        """Decisions on what is open in it are carried out first."""
        with recorded(self.change("online", call.body.reason)) as recording:
            ended = [str(txn_id) for txn_id in engine().partitions.bring_online(self.partition)]
            recording.after = {"state": "online", "ended_transactions": ended}
        return OnlineAgain(partition=str(self.partition), ended_transactions=ended)


class SnapshotOfPartition(OperationEndpoint):
    @operation(
        "snapshotPartition",
        Permission.PARTITION_OPERATE,
        Shape(keyed=True, body=TakeSnapshot, answer=PartitionSummary),
        summary="Snapshot a partition's buffer",
    )
    def post(self, call: Call[TakeSnapshot, NoQuery]) -> PartitionSummary:
        """Recovery starts from it; `GET` of the partition shows it."""
        with recorded(self.change("snapshot", call.body.reason)) as recording:
            info = engine().partitions.snapshot(self.partition)
            recording.after = {"position": None if info is None else info.position}
        return self.summary()


class RecoveryOfPartition(OperationEndpoint):
    @operation(
        "recoverPartition",
        Permission.PARTITION_OPERATE,
        Shape(keyed=True, body=OperatePartition, answer=PartitionSummary),
        summary="Rebuild a partition's state",
    )
    def post(self, call: Call[OperatePartition, NoQuery]) -> PartitionSummary:
        """Throws away what is derived and rebuilds it from the newest good snapshot and the log."""
        with recorded(self.change("recover", call.body.reason)) as recording:
            recording.before = self.positions()
            engine().partitions.recover(self.partition)
            recording.after = self.positions()
        return self.summary()


class TruncationOfPartition(OperationEndpoint):
    @operation(
        "truncatePartition",
        Permission.PARTITION_OPERATE,
        Shape(keyed=True, body=TruncatePartition, answer=Truncation),
        summary="Truncate a partition's log",
    )
    def post(self, call: Call[TruncatePartition, NoQuery]) -> Truncation:
        """Drops everything from `offset` on, in whole batches; there is no way back.

        409 `InvalidPartitionState` unless the partition is offline, 409 `TopicInUse` where an open
        transaction has messages or acknowledgements. Cursors move back with the log.
        """
        with recorded(self.change("truncate", call.body.reason)) as recording:
            recording.before = self.positions()
            truncated = engine().partitions.truncate(self.partition, call.body.offset)
            answer = Truncation.of(self.partition, truncated)
            recording.after = {
                "next_offset": answer.next_offset,
                "dropped_entries": answer.dropped_entries,
                "reopened_transactions": answer.reopened_transactions,
            }
        return answer


class OrphansOfPartition(OperationEndpoint):
    @operation(
        "forceAbort",
        Permission.PARTITION_OPERATE,
        Shape(keyed=True, body=ForceAbort, answer=AbortedOrphan),
        summary="Abort an orphan in a partition",
    )
    def post(self, call: Call[ForceAbort, NoQuery]) -> AbortedOrphan:
        """Only when its coordinator does not know the transaction, or says ABORTED.

        409 `InvalidTxnStatus` otherwise; if it was committed, the commit has been carried out in
        the partition instead, and `replayed` says so.
        """
        txn_id = named("txn_id", TxnID.parse, call.body.txn_id)
        with recorded(self.change("force_abort", call.body.reason)) as recording:
            recording.before = {"txn_id": str(txn_id)} | dict(self.positions())
            marker = engine().partitions.force_abort(self.partition, txn_id)
            recording.after = {"marker_offset": marker} | dict(self.positions())
        return AbortedOrphan(
            partition=str(self.partition), txn_id=str(txn_id), marker_offset=marker
        )
