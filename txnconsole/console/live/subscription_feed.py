"""The channel of one subscription."""

from __future__ import annotations

from engine.inspect.subscriptions import SubscriptionView
from engine.model.topic_name import SubscriptionName
from txnconsole.console.live.feed import ChangeFeed, Reading, digest
from txnconsole.enginedb.wiring import engine

#: How many partitions, from the first on, a channel and a page look at.
PARTITIONS = 25


class SubscriptionFeed(ChangeFeed):
    """Tells when the subscription has got on in one of the topic's first :data:`PARTITIONS`, or
    when what transactions hold of it has changed."""

    def __init__(self, name: SubscriptionName) -> None:
        self._name = name

    def look(self) -> Reading:
        """The subscription as its page shows it first.

        Raises:
            TopicNotFound, SubscriptionNotFound: there is none.
            EngineError: no database can be read now.
        """
        source = engine()
        source.subscriptions.get_anywhere(self._name)
        view = source.inspect.lists.subscription(self._name, range(PARTITIONS))
        return Reading(subscription_position(view), {"changed": True})


def subscription_position(view: SubscriptionView) -> str:
    """A digest of what the page shows, except for ages. Scattered acknowledgements are counted:
    there may be very many of them."""
    return digest(
        [
            [
                cursor.partition,
                cursor.online,
                cursor.mark_delete_offset,
                len(cursor.acked),
                {consumer: len(ranges) for consumer, ranges in cursor.delivered.items()},
                len(cursor.redeliver),
                len(cursor.dead),
                cursor.log_start_offset,
                cursor.stable_position,
                cursor.last_offset,
            ]
            for cursor in view.cursors
        ],
        [
            [str(held.ack.txn_id), held.partition, held.ack.ack_type, len(held.ack.ranges)]
            for held in view.held
        ],
        view.more_held,
        sorted(view.unavailable),
    )
