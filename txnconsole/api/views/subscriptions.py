"""Subscriptions (design/api.md, Subscriptions)."""

from __future__ import annotations

from engine.model.errors import TransactionConflict
from engine.model.message import MessageID
from engine.model.subscription import SubscriptionSettings
from engine.model.txn_id import TxnID
from txnconsole.access.roles import Permission
from txnconsole.api.decoding import all_named, named
from txnconsole.api.endpoint import PackingEndpoint, SubscriptionEndpoint, TopicEndpoint
from txnconsole.api.long_poll import still_wanted, wait_until
from txnconsole.api.operation import Call, NoBody, NoQuery, Reply, Shape, operation
from txnconsole.api.paging import name_in, page_of
from txnconsole.api.structs.fields import Answer, PageQuery, UnavailableBroker
from txnconsole.api.structs.messages import PackedReceivedMessages, ReceivedMessages, received
from txnconsole.api.structs.subscriptions import (
    Acknowledge,
    Acknowledged,
    DeletedSubscription,
    DeleteSubscription,
    Leave,
    NegativeAcknowledge,
    PutSubscription,
    Receive,
    Seek,
    SoughtSubscription,
    Subscription,
    SubscriptionSummaries,
    SubscriptionSummary,
)
from txnconsole.api.structs.topics import AbortedParticipation
from txnconsole.enginedb.wiring import engine
from txnconsole.operations import subscriptions as operations
from txnconsole.queue.conflicts import note_conflict
from txnconsole.refusals import recording as refusals
from txnconsole.request_log import about


class Subscriptions(TopicEndpoint):
    @operation(
        "listSubscriptions",
        Permission.TOPIC_READ,
        Shape(query=PageQuery, answer=SubscriptionSummaries),
        summary="List a topic's subscriptions",
    )
    def get(self, call: Call[None, PageQuery]) -> SubscriptionSummaries:
        """By name, with their settings; the address of each one has its positions.

        A broker of the topic that does not answer is among `unavailable`.
        """
        cursor, limit = call.query.cursor, call.query.limit
        found, failures = engine().subscriptions.page(
            self.topic, after=name_in(cursor), limit=limit + 1
        )
        page, next_cursor = page_of(found, limit, lambda each: each.name.name)
        return SubscriptionSummaries(
            items=[SubscriptionSummary.of(each) for each in page],
            next_cursor=next_cursor,
            unavailable=[
                UnavailableBroker(broker=broker, detail=detail)
                for broker, detail in failures.items()
            ],
        )


class OneSubscription(SubscriptionEndpoint):
    @operation(
        "getSubscription",
        Permission.TOPIC_READ,
        Shape(answer=Subscription),
        summary="Show a subscription",
    )
    def get(self, call: Call[None, NoQuery]) -> Subscription:
        """Its position in each partition. A partition whose broker does not answer is among
        `unavailable`; 503 when no broker that answers knows the subscription."""
        return Subscription.whole(engine().subscriptions.describe(self.subscription))

    @operation(
        "putSubscription",
        Permission.SUBSCRIPTION_CREATE,
        Shape(keyed=True, body=PutSubscription, answer=Subscription, statuses=(200, 201)),
        summary="Create a subscription",
    )
    def put(self, call: Call[PutSubscription, NoQuery]) -> Reply:
        """201 when it was created, 200 when it exists.

        An existing subscription keeps its settings. When a given setting has another value there,
        409 `SubscriptionConflict` names it in `differences`.
        """
        given = call.body.given()
        settings = SubscriptionSettings(**given)
        if settings.dead_letter_topic is not None:
            self.allow_topic(settings.dead_letter_topic)
        created = operations.put(self.actor(), self.subscription, settings, held_to=given)
        status = engine().subscriptions.describe(self.subscription)
        return Reply(Subscription.whole(status), 201 if created else 200)

    @operation(
        "deleteSubscription",
        Permission.SUBSCRIPTION_DELETE,
        Shape(
            keyed=True, query=DeleteSubscription, answer=DeletedSubscription, statuses=(200, 204)
        ),
        summary="Delete a subscription",
    )
    def delete(self, call: Call[NoBody, DeleteSubscription]) -> DeletedSubscription | None:
        """Deletes its positions and settings; the topic's messages stay.

        409 `TopicInUse` while a transaction holds messages of it. With `force`, what transactions
        have in it is aborted, and a 200 names these transactions, which otherwise go on.
        """
        parts = operations.delete(self.actor(), self.subscription, force=call.query.force)
        if not call.query.force:
            return None
        return DeletedSubscription(
            topic=str(self.topic),
            subscription=self.subscription.name,
            aborted_participations=[AbortedParticipation.of(part) for part in parts],
        )


class Position(SubscriptionEndpoint):
    @operation(
        "seekSubscription",
        Permission.SUBSCRIPTION_SEEK,
        Shape(keyed=True, body=Seek, answer=SoughtSubscription),
        summary="Go on from another place",
    )
    def post(self, call: Call[Seek, NoQuery]) -> SoughtSubscription:
        """Messages before the new place count as acknowledged, messages after it are delivered
        again.

        409 `TopicInUse` while acknowledgements are pending. With `force`, for operators, the
        transactions that hold them are ended first: as they were decided, and those that are open
        by aborting them as a whole; the audit log keeps the `reason`.
        """
        body = call.body
        if body.force and not call.principal.may(Permission.TRANSACTION_ABORT_ANY):
            self.refuse("force ends transactions of others: it is an operator's.")
        ended = operations.seek(
            self.actor(),
            self.subscription,
            body.target,
            partition=body.partition,
            force=body.force,
            reason=body.reason,
        )
        status = engine().subscriptions.describe(self.subscription)
        return SoughtSubscription.after(status, ended)


class Deliveries(PackingEndpoint, SubscriptionEndpoint):
    @operation(
        "receiveMessages",
        Permission.MESSAGE_CONSUME,
        Shape(
            keyed=True,
            body=Receive,
            packed_body=Receive,
            answer=ReceivedMessages,
            packed_answer=PackedReceivedMessages,
        ),
        summary="Receive messages",
    )
    def post(self, call: Call[Receive, NoQuery]) -> Answer:
        """The messages belong to the consumer until it acknowledges them or gives them back, or the
        acknowledgement timeout passes.

        The call waits for the first message, `wait_ms` at most. On an EXCLUSIVE subscription, any
        other than the active consumer gets 409 `ConsumerBusy`. On a FAILOVER subscription it gets
        no messages until the active consumer leaves or has not called for `consumer_lease_ms`.
        While all partitions are offline: 503 `PartitionUnavailable`.

        When an answer is lost, its messages are delivered again after the acknowledgement timeout;
        a call repeated under its `Idempotency-Key` gets them at once.
        """
        body = call.body
        messages = wait_until(
            bool,
            lambda: engine().receive(
                self.subscription, body.consumer, max_messages=body.max_messages
            ),
            wait_ms=body.wait_ms,
            stirred=lambda _, seconds: engine().arrivals.in_subscription(
                self.subscription, body.consumer, seconds=seconds
            ),
            still_wanted=lambda: still_wanted(call.request),
        )
        return received(messages, packed=call.packed)


class Acknowledgements(PackingEndpoint, SubscriptionEndpoint):
    @operation(
        "acknowledgeMessages",
        Permission.MESSAGE_CONSUME,
        Shape(
            body=Acknowledge,
            packed_body=Acknowledge,
            answer=Acknowledged,
            packed_answer=Acknowledged,
        ),
        summary="Acknowledge messages",
    )
    def post(self, call: Call[Acknowledge, NoQuery]) -> Acknowledged:
        """Takes effect at once, or with `txn_id` when that transaction commits.

        In a transaction it acknowledges all messages or none: 409 `TransactionConflict` names the
        messages that another transaction holds, or that are acknowledged already. Without one,
        messages that a transaction holds, or that are on their way to the dead-letter topic, are
        left alone: `dropped` names them. `CUMULATIVE`, for EXCLUSIVE and FAILOVER subscriptions,
        takes one message and acknowledges all of its partition up to it.
        """
        body = call.body
        message_ids = all_named("message_ids", MessageID.parse, body.message_ids)
        txn_id = None if body.txn_id is None else named("txn_id", TxnID.parse, body.txn_id)
        about(txn_id)
        try:
            answer = engine().acknowledge(
                self.subscription,
                body.consumer,
                message_ids,
                ack_type=body.engine_ack_type,
                txn_id=txn_id,
                owner=call.principal.name,
            )
        except TransactionConflict as conflict:
            note_conflict(str(self.subscription))
            if txn_id is not None:
                refusals.record(
                    self.subscription,
                    conflict,
                    refused=txn_id,
                    consumer=body.consumer,
                    who=call.principal.name,
                )
            raise
        return Acknowledged.of(answer)


class NegativeAcknowledgements(SubscriptionEndpoint):
    @operation(
        "giveBackMessages",
        Permission.MESSAGE_CONSUME,
        Shape(keyed=True, body=NegativeAcknowledge),
        summary="Give messages back",
    )
    def post(self, call: Call[NegativeAcknowledge, NoQuery]) -> None:
        """The messages are delivered again, except those that a transaction has acknowledged."""
        engine().nack(
            self.subscription,
            call.body.consumer,
            all_named("message_ids", MessageID.parse, call.body.message_ids),
        )


class Departures(SubscriptionEndpoint):
    @operation(
        "leaveSubscription",
        Permission.MESSAGE_CONSUME,
        Shape(keyed=True, body=Leave),
        summary="Leave a subscription",
    )
    def post(self, call: Call[Leave, NoQuery]) -> None:
        """What the consumer has is given back, and another one may take its place at once."""
        engine().leave(self.subscription, call.body.consumer)
