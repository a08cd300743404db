"""Which transactions hold what is to be deleted, and what becomes of their part in it.

Without force nothing is deleted that a transaction holds which has not ended. With it, that part of
the transaction is aborted, the rest goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.log.rows import txn_of
from engine.model.errors import TopicInUse
from engine.model.topic import AbortedParticipation, Topic
from engine.model.topic_name import SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.postgres.database import Row, Session

_ABANDONED = "subscription deleted by force; this part is aborted"


def abandoned(catalog: Session, topic: Topic, subscription: str) -> tuple[TxnID, ...]:
    """The transactions, not ended yet, whose part in a subscription of that name has been aborted
    by deleting it."""
    rows = catalog.all("abandoned_txns", topic_id=topic.topic_id, subscription=subscription)
    return tuple(txn_of(row) for row in rows)


def abandon(catalog: Session, topic: Topic, subscription: str) -> tuple[AbortedParticipation, ...]:
    """Abort the part that transactions have in a subscription that is deleted; the rest of them
    goes on."""
    rows = catalog.all(
        "abandon_subscription",
        topic_id=topic.topic_id,
        subscription=subscription,
        error=_ABANDONED,
    )
    return participations(rows)


def require_unheld(catalog: Session, topic: Topic, name: SubscriptionName) -> None:
    """Check that no transaction that has not ended holds a subscription, as its coordinator knows.

    Raises:
        TopicInUse: names some that do.
    """
    holders = catalog.all("subscription_in_use", topic_id=topic.topic_id, subscription=name.name)
    require_no_holders(name, holders)


def require_no_holders(name: TopicName | SubscriptionName, holders: Sequence[Row]) -> None:
    """Refuse what transactions hold.

    Raises:
        TopicInUse: names them.
    """
    if holders:
        # A subscription is held once for each broker of its topic.
        txn_ids = sorted({txn_of(row) for row in holders})
        ids = [str(txn_id) for txn_id in txn_ids]
        message = f"{name} is held by {', '.join(ids[:5])}; end them first, or force."
        raise TopicInUse(message, holders=ids)


def participations(rows: Sequence[Row]) -> tuple[AbortedParticipation, ...]:
    """The parts of transactions that rows tell of, in order."""
    # A subscription takes part once on each broker.
    parts = {(txn_of(row), str(row.participant)) for row in rows}
    return tuple(
        AbortedParticipation(txn_id=txn_id, participant=participant)
        for txn_id, participant in sorted(parts)
    )
