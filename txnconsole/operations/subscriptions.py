"""Making, moving and deleting subscriptions, recorded."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from engine.model.errors import EngineError
from engine.model.moment import time_text
from engine.model.subscription import SubscriptionSettings
from engine.model.topic import AbortedParticipation
from engine.model.topic_name import SubscriptionName
from engine.model.txn_id import TxnID
from engine.subscription.seeking import Target
from txnconsole.audit.recording import Actor, Change, Facts, recorded
from txnconsole.enginedb.wiring import engine
from txnconsole.operations.topics import forced
from txnconsole.queue.wakeup import wake_finalizers_of

#: Of how many partitions the audit log keeps where a subscription stood.
_PARTITIONS = 100


def put(
    actor: Actor,
    name: SubscriptionName,
    settings: SubscriptionSettings,
    *,
    held_to: Collection[str],
) -> bool:
    """Make a subscription, unless it exists; answers whether it did. See
    :meth:`engine.subscription.subscriptions.Subscriptions.create`."""
    with recorded(Change(actor, "subscription.put", f"subscription:{name}")) as recording:
        subscription, created = engine().subscriptions.create(name, settings, held_to=held_to)
        recording.after = {"created": created, "type": subscription.settings.type}
    return created


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
    ended: list[TxnID] = []
    with recorded(change) as recording:
        recording.before = _positions_of(name, partition)
        try:
            engine().subscription_operations.seek(
                name, target, partition=partition, force=force, on_ended=ended.append
            )
        except EngineError:
            if ended:
                recording.after = _ended(ended)
            raise
        finally:
            wake_finalizers_of(ended)
        recording.after = {"target": _told(target), "partition": partition, **_ended(ended)}
    return tuple(ended)


def delete(
    actor: Actor, name: SubscriptionName, *, force: bool
) -> tuple[AbortedParticipation, ...]:
    """Delete a subscription with its positions; see
    :meth:`engine.subscription.subscriptions.Subscriptions.delete`."""
    change = Change(actor, "subscription.delete", f"subscription:{name}")
    with recorded(change) as recording:
        recording.before = _positions_of(name, None)
        parts = engine().subscriptions.delete(name, force=force)
        if force:
            recording.after = forced(parts)
    return parts


def _positions_of(name: SubscriptionName, partition: int | None) -> Facts:
    """Where a subscription stands, in one partition or in all, as far as brokers answer."""
    numbers = range(_PARTITIONS) if partition is None else range(partition, partition + 1)
    found = engine().inspect.lists.subscription(name, numbers, limit=0)
    return {
        "mark_delete_offsets": {
            str(cursor.partition): cursor.mark_delete_offset for cursor in found.cursors
        }
    }


def _ended(txn_ids: Iterable[TxnID]) -> Facts:
    return {"ended_transactions": [str(txn_id) for txn_id in txn_ids]}


def _told(target: Target) -> str:
    return time_text(target) if isinstance(target, datetime) else str(target)
