"""Streams that start where a subscription stands, and whose sink acknowledges what they have read.

The source puts the subscription's name into its offsets. Spark writes a batch's offsets to the
checkpoint before the batch runs. When the sink commits the batch, it reads them there, acknowledges
up to them in another transaction, and ends that transaction in the batch's group. So output and
position become final by one decision. When the checkpoint is lost nothing is doubled, because a new
one begins where the subscription stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from txnconsole.client import (
    Client,
    InvalidTxnStatus,
    PermissionDenied,
    Transaction,
    TransactionNotFound,
    calls,
)
from txnconsole.client.answers import SubscriptionInfo
from txnconsole.pipeline.checkpoint import Planned
from txnconsole.pipeline.offsets import SUBSCRIPTION, Place, noted_offsets

_ONE_CONSUMER = ("EXCLUSIVE", "FAILOVER")
#: How long to wait until a decision on a transaction has been carried out.
_END_SECONDS = 20.0


class SubscriptionUnfit(Exception):
    """A stream cannot use this subscription; the text says why."""


@dataclass(frozen=True)
class Subscription:
    """A subscription by its name."""

    topic: str
    name: str

    @property
    def tag(self) -> str:
        return f"{self.topic}/{self.name}"

    @classmethod
    def of_tag(cls, tag: str) -> Subscription:
        tenant, namespace, topic, name = tag.split("/", 3)
        return cls(f"{tenant}/{namespace}/{topic}", name)

    def look_up(self, client: Client) -> SubscriptionInfo:
        """Ask where it stands.

        Raises:
            SubscriptionNotFound: there is no such subscription.
            SubscriptionUnfit: its type does not take cumulative acknowledgements.
        """
        found = client.perform(calls.get_subscription(self.topic, self.name))
        if found.type not in _ONE_CONSUMER:
            raise SubscriptionUnfit(
                f"{self.tag} is {found.type}; a stream acknowledges everything up to an offset,"
                " which takes an EXCLUSIVE or FAILOVER subscription."
            )
        return found

    def start(self, client: Client) -> dict[Place, int]:
        """Where a stream without a checkpoint begins.

        Raises:
            SubscriptionUnfit: others acknowledge on it, so there is no offset to start from.
        """
        found = self.look_up(client)
        for cursor in found.partitions:
            if cursor.acked or cursor.pending_acks:
                raise SubscriptionUnfit(
                    f"{self.tag} has acknowledgements of single messages, or of transactions that"
                    f" have not ended, in partition {cursor.partition}. A stream needs a"
                    " subscription of its own; when the last run has just died, try again once its"
                    " transactions have ended."
                )
        return {
            Place(self.topic, cursor.partition): cursor.mark_delete_offset + 1
            for cursor in found.partitions
        }


@dataclass(frozen=True)
class Claim:
    """What a batch claims to have read of a subscription: everything below ``ends``."""

    subscription: Subscription
    ends: Mapping[Place, int]

    def acknowledge(self, client: Client, transaction: Transaction, consumer: str) -> None:
        """Acknowledge, in a transaction, what is not acknowledged yet.

        Raises:
            TransactionConflict, ConsumerBusy: somebody else acknowledges on this subscription.
        """
        one = client.consumer(self.subscription.topic, self.subscription.name, name=consumer)
        for place, end in self.behind(client).items():
            one.ack_cumulative(message_id_at(client, place, end - 1), txn=transaction)
        one.leave()  # The transaction has the messages; the subscription is free for another query.

    def behind(self, client: Client) -> dict[Place, int]:
        """The ends that the subscription has not reached; empty when the batch is a repetition."""
        cursors = self.subscription.look_up(client).partitions
        deleted = {cursor.partition: cursor.mark_delete_offset for cursor in cursors}
        return {
            place: end
            for place, end in self.ends.items()
            if end - 1 > deleted.get(place.partition, -1)
        }

    def settle(self, client: Client, owner: str) -> None:
        """End a client's transactions that have acknowledgements pending on this subscription: wait
        for the last batch's, which is decided, and abort those of attempts that ended early."""
        cursors = self.subscription.look_up(client).partitions
        for txn_id in {each.txn_id for cursor in cursors for each in cursor.pending_acks}:
            _settle(client, txn_id, owner)


def message_id_at(client: Client, place: Place, offset: int) -> str:
    """The id of the message, or marker, at an offset."""
    at = {"from_offset": offset, "max_messages": 1, "view": "log"}
    found = client.perform(calls.fetch(place.topic, place.partition, at)).messages
    # For what retention has deleted, the server does not check the ledger's id.
    there = found and found[0].offset == offset
    return found[0].message_id if there else f"0:{offset}:{place.partition}:0"


def _settle(client: Client, txn_id: str, owner: str) -> None:
    try:
        found = client.transactions.get(txn_id)
        if found.client != owner:
            return  # Another's: the acknowledgement will fail with a conflict that names it.
        if found.status in ("COMMITTING", "COMMITTED"):
            client.transactions.commit(txn_id, wait=_END_SECONDS)
        else:
            client.transactions.abort(txn_id, reason="left by a dead writer", wait=_END_SECONDS)
    except (TransactionNotFound, PermissionDenied, InvalidTxnStatus):
        return  # Somebody else's, or ended in the meantime.


def claims_of(planned: Planned) -> list[Claim]:
    """What a batch has read of subscriptions.

    Raises:
        CheckpointUnknown: its offsets are in a format that is not known here.
    """
    return [
        Claim(subscription := Subscription.of_tag(tag), noted_offsets(offsets, subscription.topic))
        for offsets in planned.sources()
        if isinstance(tag := offsets.get(SUBSCRIPTION), str)
    ]
