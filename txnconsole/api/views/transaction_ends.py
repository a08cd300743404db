"""What a transaction's owner does to it, and what an operator may do instead.

Every end by a token or an operator, and every deadline moved, is in the audit log, including
refused calls.
"""

from __future__ import annotations

from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request

from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.transaction import Transaction as EngineTransaction
from engine.model.txn_id import TxnID
from engine.model.txn_status import ENDED, EndReason, TxnAction
from txnconsole.access.principal import Principal
from txnconsole.access.roles import Permission
from txnconsole.api.decoding import all_named, invalid, named
from txnconsole.api.endpoint import Endpoint, TransactionEndpoint
from txnconsole.api.long_poll import has_gone, place_to_wait
from txnconsole.api.operation import Call, NoQuery, Shape, operation
from txnconsole.api.structs.transactions import (
    AbortTransaction,
    AddPartitions,
    AddSubscriptions,
    CommitTransaction,
    EndedGroup,
    EndedTransaction,
    EndGroup,
    ExtendTransaction,
    SubscriptionOfTopic,
    Transaction,
)
from txnconsole.audit.recording import Change, recorded
from txnconsole.enginedb.wiring import engine
from txnconsole.environment import Process
from txnconsole.operations import transactions as operations
from txnconsole.queue.wakeup import wake_finalizer, wake_finalizers_of
from txnconsole.wsgi_on_threads import resting

#: After so long a waiting call looks whether its process is about to end, or its caller has gone.
_LONGEST_MS = 1000


class OwnersEndpoint(TransactionEndpoint):
    """What only the owner of a transaction may do."""

    def require_owner(self, principal: Principal, what: str) -> None:
        """Tell who may see others' transactions that this is another's; for all others there is no
        such transaction, which the call itself tells.

        Raises:
            PermissionDenied: the caller sees it, and it is another's.
        """
        if principal.owner_filter is None and self.visible().owner != principal.name:
            raise PermissionDenied(f"Only its owner may {what} {self.txn_id}.")


class PartitionsOfTransaction(OwnersEndpoint):
    @operation(
        "addPartitions",
        Permission.TRANSACTION_USE,
        Shape(body=AddPartitions, answer=Transaction),
        summary="Add partitions to a transaction",
    )
    def post(self, call: Call[AddPartitions, NoQuery]) -> Transaction:
        """AddPartitionToTxn. Producing in the transaction does this by itself."""
        partitions = all_named("partitions", _writable, call.body.partitions)
        for partition in partitions:
            self.allow_topic(partition.topic)
        self.require_owner(call.principal, "add partitions to")
        joined = engine().coordinator.add_partitions(
            self.txn_id, partitions, owner=call.principal.name
        )
        return Transaction.of(engine().inspect.beside_brokers(joined))


class SubscriptionsOfTransaction(OwnersEndpoint):
    @operation(
        "addSubscriptions",
        Permission.TRANSACTION_USE,
        Shape(body=AddSubscriptions, answer=Transaction),
        summary="Add subscriptions to a transaction",
    )
    def post(self, call: Call[AddSubscriptions, NoQuery]) -> Transaction:
        """AddSubscriptionToTxn. Acknowledging in the transaction does this by itself."""
        given = call.body.subscriptions
        subscriptions = [_subscription(index, each) for index, each in enumerate(given)]
        for subscription in subscriptions:
            self.allow_topic(subscription.topic)
        for subscription in set(subscriptions):
            engine().subscriptions.get(subscription)
        self.require_owner(call.principal, "add subscriptions to")
        joined = engine().coordinator.add_subscriptions(
            self.txn_id, subscriptions, owner=call.principal.name
        )
        return Transaction.of(engine().inspect.beside_brokers(joined))


class CommitOfTransaction(OwnersEndpoint):
    @operation(
        "commitTransaction",
        Permission.TRANSACTION_USE,
        Shape(body=CommitTransaction, answer=Transaction),
        summary="Commit a transaction",
    )
    def post(self, call: Call[CommitTransaction, NoQuery]) -> Transaction:
        """Answers once COMMITTING is durable; with `wait_ms` it waits that long for COMMITTED.

        Only the owner may commit. Repeating a commit is success; after an abort it answers 409
        `InvalidTxnStatus`.
        """
        change = Change(self.actor(), "transaction.commit", f"transaction:{self.txn_id}")
        with recorded(change) as recording:
            self.require_owner(call.principal, "commit")
            decided = engine().coordinator.end(
                self.txn_id, TxnAction.COMMIT, owner=call.principal.name
            )
            recording.after = {"status": decided.status}
        if decided.status not in ENDED:
            wake_finalizer(self.txn_id.tc_id)
        return _ended_within(call.body.wait_ms, decided, call.request)


class AbortOfTransaction(TransactionEndpoint):
    @operation(
        "abortTransaction",
        Permission.TRANSACTION_ABORT,
        Shape(keyed=True, body=AbortTransaction, answer=Transaction),
        summary="Abort a transaction",
    )
    def post(self, call: Call[AbortTransaction, NoQuery]) -> Transaction:
        """Answers once ABORTING is durable; with `wait_ms` it waits that long for ABORTED.

        An operator may abort anybody's transaction and must give a `reason`. Repeating an abort
        is success; after a commit it answers 409 `InvalidTxnStatus`.
        """
        reason = call.body.reason.strip()
        decided = operations.abort(
            self.actor(),
            self.txn_id,
            reason,
            end_reason=lambda before: _end_reason(before, call.principal, reason),
            owner=call.principal.owner_filter,
        )
        return _ended_within(call.body.wait_ms, decided, call.request)


class DeadlineOfTransaction(OwnersEndpoint):
    @operation(
        "extendTransaction",
        Permission.TRANSACTION_USE,
        Shape(keyed=True, body=ExtendTransaction, answer=Transaction),
        summary="Move a transaction's deadline",
    )
    def post(self, call: Call[ExtendTransaction, NoQuery]) -> Transaction:
        """Moves the deadline to now + `timeout_ms`, up to the configured maximum, while it
        is OPEN."""
        timeout_ms = call.body.timeout_ms
        change = Change(self.actor(), "transaction.extend", f"transaction:{self.txn_id}")
        with recorded(change) as recording:
            self.require_owner(call.principal, "extend")
            extended = engine().coordinator.extend(
                self.txn_id, timeout_ms, owner=call.principal.name
            )
            deadline = Transaction.of(extended).deadline
            recording.after = {"timeout_ms": timeout_ms, "deadline": deadline}
        return Transaction.of(engine().inspect.beside_brokers(extended))


class Groups(Endpoint):
    @operation(
        "endGroup",
        Permission.TRANSACTION_USE,
        Shape(body=EndGroup, answer=EndedGroup),
        summary="End several transactions by one decision",
    )
    def post(self, call: Call[EndGroup, NoQuery]) -> EndedGroup:
        """Ends all of them or none, once for each `group`: repeated with the same group, it changes
        nothing.

        When the group was decided under another `guard`, 409 `ProducerFenced`.
        """
        body = call.body
        change = Change(self.actor(), "transaction.end_group", f"group:{body.group}")
        with recorded(change) as recording:
            ended = engine().groups.end(
                body.group,
                body.guard,
                commit=all_named("commit", TxnID.parse, body.commit),
                abort=all_named("abort", TxnID.parse, body.abort),
                owner=call.principal.name,
            )
            recording.after = {
                "duplicate": ended.duplicate,
                "statuses": {str(txn_id): status for txn_id, status in ended.statuses.items()},
            }
        wake_finalizers_of(ended.statuses)
        return EndedGroup(
            group=body.group,
            transactions=[
                EndedTransaction(txn_id=str(txn_id), status=status)
                for txn_id, status in ended.statuses.items()
            ],
            duplicate=ended.duplicate,
        )


def _writable(text: str) -> PartitionName:
    partition = PartitionName.parse(text)
    partition.require_writable()
    return partition


def _subscription(index: int, given: SubscriptionOfTopic) -> SubscriptionName:
    place = f"subscriptions[{index}]"
    topic = named(f"{place}.topic", TopicName.parse, given.topic)
    return named(
        f"{place}.subscription", lambda name: SubscriptionName(topic, name), given.subscription
    )


def _end_reason(before: EngineTransaction, principal: Principal, reason: str) -> EndReason:
    """Why an abort is decided: by its owner, or by an operator, who must say why."""
    if before.owner == principal.name:
        return EndReason.CLIENT
    if not principal.may(Permission.TRANSACTION_ABORT_ANY):
        raise PermissionDenied(f"Only its owner or an operator may abort {before.txn_id}.")
    if not reason:
        raise invalid("reason", "is required to abort another's transaction")
    return EndReason.OPERATOR


def _ended_within(wait_ms: int, decided: EngineTransaction, request: Request) -> Transaction:
    """Wait until the decision is carried out, if the caller wants to, and is there."""
    if decided.status in ENDED:
        return Transaction.of(decided)
    with place_to_wait(wait_ms) as granted_ms:
        for begun_ms in range(0, granted_ms, _LONGEST_MS):
            if decided.status in ENDED or Process.is_ending or has_gone(request):
                break
            with resting():
                decided = engine().coordinator.wait_for_end(
                    decided.txn_id, wait_ms=min(_LONGEST_MS, granted_ms - begun_ms)
                )
    return Transaction.of(decided)
