"""An engine in this process as a target of requests."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec

from engine import Engine
from engine.model.errors import EngineError
from engine.model.message import Isolation, MessageID, NewMessage, StoredMessage
from engine.model.subscription import AckType
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import EndReason, TxnAction
from tests.checker.delivery_checks import key_of, properties_of, value_of
from tests.checker.history import (
    Ack,
    Begin,
    End,
    Extend,
    Fetch,
    Look,
    Nack,
    Op,
    Produce,
    Receive,
)
from tests.checker.network import Refused, Unknown

OWNER = "checker"


class EngineTarget:
    """Calls an engine; ``sidecars`` are topics whose transactions' messages get their offsets from
    the commit marker, so that the answer of an append names none."""

    def __init__(self, engine: Engine, sidecars: frozenset[str] = frozenset()) -> None:
        self.engine = engine
        self._sidecars = sidecars

    def perform(self, op: Op) -> Op:
        """See :class:`tests.checker.network.Target`; any other error is a bug and goes on."""
        try:
            return getattr(self, f"_{type(op).__name__.lower()}")(op)
        except EngineError as error:
            if error.retryable:
                raise Unknown from error
            status = error.data.get("current_status")
            raise Refused(error.code, None if status is None else str(status)) from error

    def _begin(self, op: Begin) -> Op:
        opened = self.engine.coordinator.open(owner=OWNER, timeout_ms=op.timeout_ms)
        return _with(op, txn=str(opened.txn_id))

    def _extend(self, op: Extend) -> Op:
        self.engine.coordinator.extend(_txn(op.txn), op.timeout_ms)
        return _with(op)

    def _look(self, op: Look) -> Op:
        return _with(op, seen=str(self.engine.coordinator.get(_txn(op.txn)).status))

    def _nack(self, op: Nack) -> Op:
        self.engine.nack(_subscription(op.subscription), op.consumer, _ids(op.messages))
        return _with(op)

    def _produce(self, op: Produce) -> Op:
        partition = PartitionName.parse(op.partition)
        appended = self.engine.produce(
            partition,
            [
                NewMessage(
                    payload=value.encode(), key=key_of(value), properties=properties_of(value)
                )
                for value in op.values
            ],
            txn_id=None if op.txn is None else _txn(op.txn),
            producer_name=op.producer,
            sequence_id=op.sequence,
        )
        hidden = op.txn is not None and str(partition.topic) in self._sidecars
        return _with(
            op, first=None if hidden else appended.first_offset, duplicate=appended.duplicate
        )

    def _end(self, op: End) -> Op:
        coordinator = self.engine.coordinator
        if op.group is not None:
            ended = self.engine.groups.end(
                op.group,
                op.guard,
                commit=[_txn(txn) for txn in op.commit],
                abort=[_txn(txn) for txn in op.abort],
            )
            return _with(op, statuses={str(t): str(s) for t, s in ended.statuses.items()})
        [txn] = (*op.commit, *op.abort)
        action = TxnAction.COMMIT if op.commit else TxnAction.ABORT
        reason = EndReason.CLIENT if op.commit else EndReason.OPERATOR
        status = coordinator.end(_txn(txn), action, reason=reason).status
        return _with(op, statuses={txn: str(status)})

    def _fetch(self, op: Fetch) -> Op:
        fetched = self.engine.log.fetch(
            PartitionName.parse(op.partition),
            op.from_offset,
            op.max_messages,
            isolation=Isolation.READ_COMMITTED if op.committed else Isolation.READ_UNCOMMITTED,
            keep_aborted=op.kept,
        )
        return _with(
            op,
            records=tuple((m.offset, _value(m)) for m in fetched.messages),
            aborted=tuple(
                (str(txn.txn_id), txn.first_offset) for txn in fetched.aborted_transactions or ()
            ),
            next_offset=fetched.next_offset,
            stable=fetched.stable_position,
            last=fetched.last_offset,
        )

    def _receive(self, op: Receive) -> Op:
        name = _subscription(op.subscription)
        messages = self.engine.receive(name, op.consumer, max_messages=op.max_messages)
        return _with(
            op,
            messages=tuple(
                (f"{name.topic}:{m.partition}", m.offset, _value(m), str(m.message_id))
                for m in messages
            ),
        )

    def _ack(self, op: Ack) -> Op:
        name = _subscription(op.subscription)
        answer = self.engine.acknowledge(
            name,
            op.consumer,
            _ids(op.messages),
            ack_type=AckType.CUMULATIVE if op.cumulative else AckType.INDIVIDUAL,
            txn_id=None if op.txn is None else _txn(op.txn),
        )
        gone = {str(message_id) for message_id in answer.dropped}
        dropped = tuple((place, offset) for place, offset, mid in op.messages if mid in gone)
        return _with(op, dropped=dropped)


class Processes:
    """Engines of several processes on the same databases: each request goes to one of them, as a
    load balancer does it."""

    def __init__(self, engines: Sequence[Engine], sidecars: frozenset[str], rng: Random) -> None:
        self._targets = [EngineTarget(engine, sidecars) for engine in engines]
        self._rng = rng

    def perform(self, op: Op) -> Op:
        """See :class:`tests.checker.network.Target`."""
        return self._rng.choice(self._targets).perform(op)


def _with(op: Op, **results: object) -> Op:
    return msgspec.structs.replace(op, **results)


def _txn(text: str) -> TxnID:
    return TxnID.parse(text)


def _subscription(text: str) -> SubscriptionName:
    topic, _, name = text.partition("|")
    return SubscriptionName(TopicName.parse(topic), name)


def _value(message: StoredMessage) -> str:
    return value_of(message.payload.decode(), message.properties)


def _ids(messages: tuple[tuple[str, int, str], ...]) -> list[MessageID]:
    return [MessageID.parse(mid) for _, _, mid in messages]
