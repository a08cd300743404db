"""Operator calls on single partitions, recorded."""

from __future__ import annotations

from contextlib import suppress

from engine.model.errors import PartitionUnavailable
from engine.model.partition import PartitionState, SnapshotInfo, Truncated
from engine.model.topic_name import PartitionName
from engine.model.txn_id import TxnID
from txnconsole.audit.recording import Actor, Change, Facts, recorded
from txnconsole.enginedb.wiring import engine


def change_of(actor: Actor, action: str, partition: PartitionName, reason: str) -> Change:
    """The audit entry that a call on a partition begins with."""
    return Change(actor, f"partition.{action}", f"partition:{partition}", reason=reason)


def positions_of(partition: PartitionName) -> Facts:
    """What a call may change, for the audit log."""
    status = engine().log.status(partition)
    return {
        "state": status.state,
        "last_offset": status.last_offset,
        "stable_position": status.stable_position,
    }


def take_offline(actor: Actor, partition: PartitionName, reason: str) -> None:
    """See :meth:`engine.coordinator.partitions.PartitionOperations.take_offline`."""
    with recorded(change_of(actor, "offline", partition, reason)) as recording:
        with suppress(PartitionUnavailable):  # One that cannot recover goes offline all the same.
            recording.before = positions_of(partition)
        engine().partitions.take_offline(partition, reason=reason)
        recording.after = {"state": PartitionState.OFFLINE}
        with suppress(PartitionUnavailable):
            recording.after = positions_of(partition)


def bring_online(actor: Actor, partition: PartitionName, reason: str) -> tuple[TxnID, ...]:
    """See :meth:`engine.coordinator.partitions.PartitionOperations.bring_online`."""
    with recorded(change_of(actor, "online", partition, reason)) as recording:
        with suppress(PartitionUnavailable):
            recording.before = positions_of(partition)
        ended = engine().partitions.bring_online(partition)
        recording.after = {
            "state": "online",
            "ended_transactions": [str(txn_id) for txn_id in ended],
        }
    return ended


def snapshot(actor: Actor, partition: PartitionName, reason: str) -> SnapshotInfo | None:
    """See :meth:`engine.coordinator.partitions.PartitionOperations.snapshot`."""
    with recorded(change_of(actor, "snapshot", partition, reason)) as recording:
        info = engine().partitions.snapshot(partition)
        recording.after = {"position": None if info is None else info.position}
    return info


def recover(actor: Actor, partition: PartitionName, reason: str) -> None:
    """See :meth:`engine.coordinator.partitions.PartitionOperations.recover`."""
    with recorded(change_of(actor, "recover", partition, reason)) as recording:
        recording.before = positions_of(partition)
        engine().partitions.recover(partition)
        recording.after = positions_of(partition)


def truncate(actor: Actor, partition: PartitionName, offset: int, reason: str) -> Truncated:
    """See :meth:`engine.coordinator.partitions.PartitionOperations.truncate`."""
    with recorded(change_of(actor, "truncate", partition, reason)) as recording:
        recording.before = positions_of(partition)
        truncated = engine().partitions.truncate(partition, offset)
        recording.after = {
            "next_offset": truncated.next_offset,
            "dropped_entries": truncated.entries,
            "reopened_transactions": [str(txn_id) for txn_id in truncated.reopened],
        }
    return truncated
