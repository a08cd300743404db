"""Moving subscriptions, recorded."""

from __future__ import annotations

from datetime import datetime

from engine.model.moment import time_text
from engine.model.topic_name import SubscriptionName
from engine.model.txn_id import TxnID
from engine.subscription.seeking import Target
from txnconsole.audit.chain import Actor, Change, recorded
from txnconsole.enginedb.wiring import engine
from txnconsole.queue.wakeup import wake_finalizer


def seek(
    actor: Actor,
    name: SubscriptionName,
    target: Target,
    *,
    partition: int | None,
    force: bool,
    reason: str,
) -> tuple[TxnID, ...]:
    """Let a subscription go on from elsewhere, and wake the workers for what that has ended; see
    :meth:`engine.coordinator.subscriptions.SubscriptionOperations.seek`."""
    change = Change(actor, "subscription.seek", f"subscription:{name}", reason=reason)
    with recorded(change) as recording:
        ended = engine().subscription_operations.seek(
            name, target, partition=partition, force=force
        )
        recording.after = {
            "target": _told(target),
            "partition": partition,
            "ended_transactions": [str(txn_id) for txn_id in ended],
        }
    for tc_id in {txn_id.tc_id for txn_id in ended}:
        wake_finalizer(tc_id)
    return tuple(ended)


def _told(target: Target) -> str:
    return time_text(target) if isinstance(target, datetime) else str(target)
