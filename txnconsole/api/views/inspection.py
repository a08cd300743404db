"""Questions of operators, and the remedies for transactions that hang (design/api.md)."""

from __future__ import annotations

from datetime import datetime

from engine.model.topic_name import SubscriptionName
from engine.model.txn_id import TxnID
from txnconsole.access.roles import Permission
from txnconsole.api.decoding import invalid, named
from txnconsole.api.endpoint import (
    Endpoint,
    PartitionEndpoint,
    SubscriptionEndpoint,
    TransactionEndpoint,
)
from txnconsole.api.operation import Call, NoQuery, Shape, operation
from txnconsole.api.structs.hanging import (
    ForceAbortAcks,
    GivenBack,
    HangingQuery,
    HangingTransactions,
    Retried,
    RetryTransaction,
    TransactionParticipants,
)
from txnconsole.api.structs.inspection import (
    ExplainQuery,
    Explanation,
    HistoryQuery,
    PositionHistory,
    Rehearsal,
)
from txnconsole.api.structs.invariants import (
    CheckQuery,
    Invariants,
    InvariantsQuery,
    PartitionCheck,
)
from txnconsole.enginedb.wiring import engine
from txnconsole.operations import transactions as operations


class HangingTransactionsOfAll(Endpoint):
    @operation(
        "listHangingTransactions",
        Permission.TRANSACTION_READ_ANY,
        Shape(query=HangingQuery, answer=HangingTransactions),
        summary="List transactions that hang",
    )
    def get(self, call: Call[None, HangingQuery]) -> HangingTransactions:
        """A cross-check of coordinators, buffers and pending acknowledgements; each finding has the
        remedy that fits it. A page may be short and still have a `next_cursor`."""
        query = call.query
        return HangingTransactions.of(
            engine().inspect.hanging(
                patience=query.patience, limit=query.limit, cursor=query.cursor
            )
        )


class ParticipantsOfTransaction(TransactionEndpoint):
    @operation(
        "getTransactionParticipants",
        Permission.TRANSACTION_READ,
        Shape(answer=TransactionParticipants),
        summary="Ask every participant of a transaction",
    )
    def get(self, call: Call[None, NoQuery]) -> TransactionParticipants:
        """What each participant says and what the coordinator has recorded, and whether
        they agree."""
        self.visible()
        return TransactionParticipants.of(engine().inspect.participants(self.txn_id))


class RetryOfTransaction(TransactionEndpoint):
    @operation(
        "retryTransaction",
        Permission.TRANSACTION_RETRY,
        Shape(keyed=True, body=RetryTransaction, answer=Retried),
        summary="Re-drive a transaction now",
    )
    def post(self, call: Call[RetryTransaction, NoQuery]) -> Retried:
        """If it is decided, the recorded decision (never the opposite one) is carried out wherever
        it has not been. If it is open, participants that hold something of it without being listed
        are registered, so that its end reaches them. 409 `InvalidTxnStatus` when there is nothing
        to mend, 503 when a broker does not answer and the others have nothing to mend."""
        return Retried.of(operations.retry(self.actor(), self.txn_id, call.body.reason.strip()))


class OrphansOfSubscription(SubscriptionEndpoint):
    @operation(
        "forceAbortAcknowledgements",
        Permission.PARTITION_OPERATE,
        Shape(keyed=True, body=ForceAbortAcks, answer=GivenBack),
        summary="Give back what an orphan holds of a subscription",
    )
    def post(self, call: Call[ForceAbortAcks, NoQuery]) -> GivenBack:
        """Only when its coordinator does not know the transaction, or says ABORTED; otherwise 409
        `InvalidTxnStatus`."""
        txn_id = named("txn_id", TxnID.parse, call.body.txn_id)
        messages = operations.force_abort_acks(
            self.actor(), self.subscription, txn_id, call.body.reason
        )
        return GivenBack(
            topic=str(self.subscription.topic),
            subscription=self.subscription.name,
            txn_id=str(txn_id),
            messages=messages,
        )


class HistoryOfPartition(PartitionEndpoint):
    @operation(
        "getPositionHistory",
        Permission.TOPIC_READ,
        Shape(query=HistoryQuery, answer=PositionHistory),
        summary="Tell where a partition stood",
    )
    def get(self, call: Call[None, HistoryQuery]) -> PositionHistory:
        """At a time (`at`), when an offset was the last one (`at` or `offset`), or over a range, by
        default the last hour. Exact as far as the log is kept; otherwise, and between the ends of
        transactions, by samples."""
        query, inspect = call.query, engine().inspect
        asked = [query.at, query.offset, query.since or query.until]
        if sum(each is not None for each in asked) > 1:
            raise invalid("at", "give one of at, offset, or a range of from and to")
        if isinstance(query.at, datetime):
            return PositionHistory.of(self.partition, inspect.position_at(self.partition, query.at))
        offset = query.offset if query.at is None else query.at
        if offset is not None:
            point = inspect.position_at_offset(self.partition, offset)
            return PositionHistory.of(self.partition, point)
        span = inspect.positions(
            self.partition, since=query.since, until=query.until, limit=query.limit
        )
        return PositionHistory.of(self.partition, span)


class ExplanationOfMessage(PartitionEndpoint):
    @operation(
        "explainMessage",
        Permission.TOPIC_READ,
        Shape(query=ExplainQuery, answer=Explanation),
        summary="Explain why a message is or is not given",
    )
    def get(self, call: Call[None, ExplainQuery]) -> Explanation:
        """The reasons with their evidence, from the log and, if asked for, from a subscription.
        Payloads are never shown."""
        query = call.query
        subscription = None
        if query.subscription is not None:
            subscription = named(
                "subscription",
                lambda name: SubscriptionName(self.topic, name),
                query.subscription,
            )
        return Explanation.of(
            engine().inspect.explain(self.partition, query.offset, query.isolation, subscription)
        )


class RehearsalOfRecovery(PartitionEndpoint):
    @operation(
        "rehearseRecovery",
        Permission.TOPIC_READ,
        Shape(answer=Rehearsal),
        summary="Tell what a restart would cost",
    )
    def get(self, call: Call[None, NoQuery]) -> Rehearsal:
        """From which snapshot recovery would start, how much it would read, and how long that takes
        judging by measured recoveries. Nothing is changed."""
        return Rehearsal.of(engine().inspect.rehearse(self.partition))


class InvariantsOfPartition(PartitionEndpoint):
    @operation(
        "checkPartition",
        Permission.OPERATION_READ,
        Shape(query=CheckQuery, answer=PartitionCheck),
        summary="Check a partition's invariants now",
    )
    def get(self, call: Call[None, CheckQuery]) -> PartitionCheck:
        """Checks a bounded part of its log from `position` on; go on at `next_position`."""
        report = engine().inspect.invariants(self.partition, position=call.query.position)
        return PartitionCheck.of(self.partition, report)


class AllInvariants(Endpoint):
    @operation(
        "listInvariants",
        Permission.OPERATION_READ,
        Shape(query=InvariantsQuery, answer=Invariants),
        summary="Show what is known of the invariants",
    )
    def get(self, call: Call[None, InvariantsQuery]) -> Invariants:
        """What the workers' continuous checks have found, with counter-examples; with `broken=true`
        only those that do not hold."""
        query = call.query
        return Invariants.of(
            engine().inspect.invariant_state(
                broken=query.broken, limit=query.limit, cursor=query.cursor
            )
        )
