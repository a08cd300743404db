"""Aborting one transaction, and what mends one that hangs, recorded."""

from __future__ import annotations

from collections.abc import Callable

from engine.coordinator.remedies import Retried
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.transaction import Transaction
from engine.model.txn_id import TxnID
from engine.model.txn_status import ENDED, EndReason, TxnAction
from txnconsole.audit.recording import Actor, Change, recorded
from txnconsole.enginedb.wiring import engine
from txnconsole.operations.partitions import change_of, positions_of
from txnconsole.queue.wakeup import wake_finalizer


def abort(
    actor: Actor,
    txn_id: TxnID,
    reason: str,
    *,
    end_reason: Callable[[Transaction], EndReason],
    owner: str | None = None,
) -> Transaction:
    """Decide a transaction's abort. It is durable when this returns; the workers carry it out.

    Repeating it is harmless. ``end_reason`` tells of the transaction as it stood what its header
    will say; what it raises refuses the abort, and is recorded. Others than ``owner``'s do not
    exist.

    Raises:
        TransactionNotFound: there is none, or it is not ``owner``'s.
        InvalidTxnStatus: it is committing or committed.
        CoordinatorUnavailable: the coordinators' database cannot be reached.
    """
    change = Change(actor, "transaction.abort", f"transaction:{txn_id}", reason=reason)
    with recorded(change) as recording:
        before = engine().coordinator.get(txn_id, owner=owner)
        recording.before = {"status": str(before.status), "owner": before.owner}
        decided = engine().coordinator.end(
            txn_id,
            TxnAction.ABORT,
            reason=end_reason(before),
            detail=reason or None,
            owner=owner,
        )
        recording.after = {"status": str(decided.status)}
    if decided.status not in ENDED:
        wake_finalizer(txn_id.tc_id)
    return decided


def retry(actor: Actor, txn_id: TxnID, reason: str) -> Retried:
    """Re-drive a transaction now; see :meth:`engine.coordinator.remedies.Remedies.retry`."""
    change = Change(actor, "transaction.retry", f"transaction:{txn_id}", reason=reason)
    with recorded(change) as recording:
        recording.before = {"status": str(engine().coordinator.get(txn_id).status)}
        done = engine().remedies.retry(txn_id)
        recording.after = {
            "status": str(done.transaction.status),
            "replayed": list(done.replayed),
            "registered": list(done.registered),
        }
    wake_finalizer(txn_id.tc_id)
    return done


def force_abort(actor: Actor, partition: PartitionName, txn_id: TxnID, reason: str) -> int:
    """Abort an orphan in a partition; see
    :meth:`engine.coordinator.partitions.PartitionOperations.force_abort`."""
    with recorded(change_of(actor, "force_abort", partition, reason)) as recording:
        recording.before = {"txn_id": str(txn_id)} | dict(positions_of(partition))
        marker = engine().partitions.force_abort(partition, txn_id)
        recording.after = {"marker_offset": marker} | dict(positions_of(partition))
    return marker


def force_abort_acks(actor: Actor, name: SubscriptionName, txn_id: TxnID, reason: str) -> int:
    """Give back what an orphan holds of a subscription; see
    :meth:`engine.coordinator.remedies.Remedies.force_abort_acks`."""
    change = Change(actor, "subscription.force_abort", f"subscription:{name}", reason=reason)
    with recorded(change) as recording:
        messages = engine().remedies.force_abort_acks(name, txn_id)
        recording.after = {"txn_id": str(txn_id), "messages": messages}
    return messages
