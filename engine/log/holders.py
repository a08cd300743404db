"""Deleting a topic or a subscription that transactions hold.

Without force, what a transaction holds that has not ended is not deleted. With force it is: that
part of the transaction is aborted, and the rest of the transaction goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.log.rows import txn_of
from engine.model.errors import TopicInUse
from engine.model.topic import AbortedParticipation, Topic
from engine.model.topic_name import SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.postgres.session import Row, Session

#: Why the part of a transaction in a subscription is aborted, whatever comes of the rest.
ABANDONED = "subscription deleted by force; this part is aborted"


def abandoned(catalog: Session, topic: Topic, subscription: str) -> tuple[TxnID, ...]:
    """The transactions that have not ended and whose part in a subscription of that name was
    aborted when it was deleted."""
    rows = catalog.all("abandoned_txns", topic_id=topic.topic_id, subscription=subscription)
    return tuple(txn_of(row) for row in rows)


def abandon(catalog: Session, topic: Topic, subscription: str) -> tuple[AbortedParticipation, ...]:
    """Abort the part that transactions have in a subscription that is being deleted."""
    # Ends lock the rows of participants in an order of their own: there may be a deadlock.
    rows = catalog.insisting(
        "abandon_subscription",
        topic_id=topic.topic_id,
        subscription=subscription,
        error=ABANDONED,
    )
    return participations(rows)


def require_unheld(catalog: Session, topic: Topic, name: SubscriptionName) -> None:
    """Check with the coordinators that no transaction that has not ended holds a subscription.

    Raises:
        TopicInUse: names some transactions that do.
    """
    rows = catalog.all("subscription_in_use", topic_id=topic.topic_id, subscription=name.name)
    require_no_holders(name, map(txn_of, rows))


def require_no_holders(name: TopicName | SubscriptionName, holders: Iterable[TxnID]) -> None:
    """Check that nobody holds a topic or a subscription; ``holders``: the transactions that do,
    where one may stand several times, once for each partition or broker.

    Raises:
        TopicInUse: names them.
    """
    ids = [str(txn_id) for txn_id in sorted(set(holders))]
    if ids:
        message = f"{name} is held by {', '.join(ids[:5])}; end them first, or force."
        raise TopicInUse(message, holders=ids)


def participations(rows: Sequence[Row]) -> tuple[AbortedParticipation, ...]:
    """The parts of transactions in some rows, sorted, each once: a subscription has a row for each
    broker."""
    parts = {(txn_of(row), str(row.participant)) for row in rows}
    return tuple(
        AbortedParticipation(txn_id=txn_id, participant=participant)
        for txn_id, participant in sorted(parts)
    )
