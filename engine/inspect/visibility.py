"""Why a reader gets a message or does not: reasons, with evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from engine.coordinator.coordinator import Coordinator
from engine.inspect.reading import Reading, View
from engine.log.catalog import Catalog
from engine.log.entries import kind_of
from engine.log.rows import txn_of
from engine.model.cursor import Cursor
from engine.model.dispatch import Dispatch, decode
from engine.model.errors import (
    InvalidRequest,
    PartitionUnavailable,
    SubscriptionNotFound,
    TopicNotFound,
)
from engine.model.message import MAX_OFFSET, EntryKind, Isolation
from engine.model.moment import time_text
from engine.model.ranges import Ranges
from engine.model.subscription import SubscriptionType
from engine.model.topic import BufferKind, Topic
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.transaction import Transaction
from engine.model.txn_id import TxnID
from engine.postgres.session import Row


class ReasonCode(StrEnum):
    """A reason. The first nine are about the log: VISIBLE, or why a message is not. The others are
    about a subscription: why it delivers the message, or does not."""

    VISIBLE = "VISIBLE"
    OPEN = "OPEN"
    BLOCKED = "BLOCKED"
    ABORTED = "ABORTED"
    MARKER = "MARKER"
    BELOW_LOG_START = "BELOW_LOG_START"
    BEYOND_END = "BEYOND_END"
    OFFLINE = "OFFLINE"
    UNAVAILABLE = "UNAVAILABLE"
    ACKNOWLEDGED = "ACKNOWLEDGED"
    PENDING_ACK = "PENDING_ACK"
    DEAD_LETTER = "DEAD_LETTER"
    IN_FLIGHT = "IN_FLIGHT"
    ACTIVE_CONSUMER = "ACTIVE_CONSUMER"
    KEY_WITH_CONSUMER = "KEY_WITH_CONSUMER"
    TO_REDELIVER = "TO_REDELIVER"
    UNREAD = "UNREAD"


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason in words. ``evidence``: the facts that it follows from, in JSON types."""

    code: ReasonCode
    text: str
    evidence: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The reasons for one message.

    Attributes:
        readable: whether a fetch at the isolation level gets the message now.
        deliverable: whether the next receive on the subscription may get it (a subscription reads
            committed messages only, whatever the isolation level); None without a subscription.
    """

    partition: PartitionName
    offset: int
    isolation: Isolation
    subscription: SubscriptionName | None
    readable: bool
    deliverable: bool | None
    reasons: tuple[Reason, ...]


_DELIVERABLE = {ReasonCode.TO_REDELIVER, ReasonCode.UNREAD}


class Explainer:
    """Explains single offsets, each from one snapshot of the partition's broker."""

    def __init__(self, reading: Reading, coordinator: Coordinator, topics: Catalog) -> None:
        self._reading = reading
        self._coordinator = coordinator
        self._topics = topics

    def explain(
        self,
        partition: PartitionName,
        offset: int,
        isolation: Isolation,
        subscription: SubscriptionName | None,
    ) -> Explanation:
        """See :meth:`engine.inspect.inspector.Inspector.explain`, which tells the errors."""
        if not 0 <= offset <= MAX_OFFSET:
            raise InvalidRequest(f"offset must be between 0 and {MAX_OFFSET}.", field="offset")
        if subscription is not None and subscription.topic != partition.topic:
            raise InvalidRequest(
                f"{subscription} is not a subscription of {partition.topic}.", field="subscription"
            )
        try:
            with self._reading.view(partition) as view:
                entry = view.one("entry_at", offset=offset) if offset <= view.last_offset else None
                in_log = committed = list(_in_log(view, entry, offset, isolation))
                if subscription is not None and isolation is not Isolation.READ_COMMITTED:
                    committed = list(_in_log(view, entry, offset, Isolation.READ_COMMITTED))
                in_subscription = list(
                    self._in_subscription(view, offset, subscription) if subscription else ()
                )
        except PartitionUnavailable as error:
            in_log = committed = [Reason(ReasonCode.UNAVAILABLE, error.message)]
            in_subscription = []
        readable = in_log[0].code is ReasonCode.VISIBLE
        is_committed = committed[0].code is ReasonCode.VISIBLE
        reasons = [*in_log]
        if readable and not is_committed:
            reasons += committed  # they keep the message from consumers
        offered = bool(in_subscription) and in_subscription[-1].code in _DELIVERABLE
        return Explanation(
            partition=partition,
            offset=offset,
            isolation=isolation,
            subscription=subscription,
            readable=readable,
            deliverable=None if subscription is None else is_committed and offered,
            reasons=self._with_headers((*reasons, *in_subscription)),
        )

    def _in_subscription(self, view: View, offset: int, name: SubscriptionName) -> Iterator[Reason]:
        topic = self._topics.get(name.topic)
        record = view.session.one("get_subscription", topic_id=topic.topic_id, name=name.name)
        if record is None:
            raise SubscriptionNotFound(f"{topic.name} has no subscription {name.name}.")
        key = {"subscription_id": record.subscription_id}
        cursors, pending, letters = view.together(
            ("cursors", key), ("pending_acks", key), ("dead_letter_at", {**key, "offset": offset})
        )
        row = next((row for row in cursors if row.partition_id == view.partition_id), None)
        if row is None:
            yield Reason(ReasonCode.UNREAD, "The subscription has read nothing here yet.")
            return
        taken = (
            _acknowledged(row, offset)
            or _pending(pending, offset)
            or self._dead(next(iter(letters), None), record)
        )
        if taken is not None:
            yield taken
            return
        held = Ranges.union(ack.ranges for ack in pending)
        before = decode(row.state, row.mark_delete)
        due = before.as_of(view.head.now.timestamp() * 1000)
        home = self._active(topic, name, record)
        if home is not None:
            if home.there:
                yield _active_consumer(home)
            if not home.there or home.consumer_epoch > due.epoch:
                due = due.give_back(due.in_flight())  # as who takes over does
        if offset in due.spent(record.max_redeliveries):
            yield self._dying(record, "goes with the next receive")
            return
        yield from _whose(offset, due, due.in_flight() | held)
        yield _dispatched(offset, before, due)

    def _dead(self, letter: Row | None, record: Row) -> Reason | None:
        if letter is None:
            return None
        if letter.cause is not None:
            return self._dying(record, "is parked on its way", letter.cause)
        return self._dying(record, "is on its way")

    def _dying(self, record: Row, how: str, cause: str | None = None) -> Reason:
        target = record.dead_letter_topic
        cause = cause or self._absent(TopicName.parse(target))
        return Reason(
            ReasonCode.DEAD_LETTER,
            f"It was given back more than {record.max_redeliveries} times and {how} to {target}; no"
            " consumer is given it any more." + (f" It waits: {cause}" if cause else ""),
            {
                "max_redeliveries": record.max_redeliveries,
                "dead_letter_topic": target,
                "cause": cause,
            },
        )

    def _absent(self, name: TopicName) -> str | None:
        """That there is no such topic; None when there is."""
        try:
            self._topics.get(name)
        except TopicNotFound as error:
            return error.message
        return None

    def _active(self, topic: Topic, name: SubscriptionName, record: Row) -> Row | None:
        """The lease of the active consumer, which is at the subscription's home; None when its type
        has no active consumer."""
        if not SubscriptionType(record.type).has_one_consumer:
            return None
        with self._reading.brokers.get(topic.brokers[0]).session() as session:
            return session.one("get_lease", topic_id=topic.topic_id, name=name.name)

    def _with_headers(self, reasons: Sequence[Reason]) -> tuple[Reason, ...]:
        """Add what the coordinators know of the transactions that the reasons name."""
        named = [_named(reason) for reason in reasons]
        headers = self._coordinator.get_many({txn_id for txn_id in named if txn_id is not None})
        return tuple(
            reason if txn_id is None else _with_header(reason, headers.get(txn_id))
            for reason, txn_id in zip(reasons, named, strict=True)
        )


def _named(reason: Reason) -> TxnID | None:
    """The transaction that a reason names, of which more is to be told."""
    named = reason.evidence.get("txn_id")
    if named is None or reason.code is ReasonCode.MARKER:
        return None
    return TxnID.parse(str(named))


def _with_header(reason: Reason, header: Transaction | None) -> Reason:
    known: dict[str, object] = {"status": None}
    if header is not None:
        known = {
            "status": header.status.value,
            "owner": header.owner,
            "client": header.client,
            "opened_at": header.opened_at and time_text(header.opened_at),
            "deadline": header.deadline and time_text(header.deadline),
        }
    return Reason(reason.code, reason.text, {**reason.evidence, **known})


def _in_log(view: View, entry: Row | None, offset: int, isolation: Isolation) -> Iterator[Reason]:
    """The reasons in the log. ``entry``: the first one that ends at the offset or behind it."""
    head = view.head
    if not head.online:
        yield Reason(ReasonCode.OFFLINE, "An operator has taken the partition offline.")
        return
    if offset < head.log_start_offset:
        yield Reason(
            ReasonCode.BELOW_LOG_START,
            f"Retention has dropped it: the log begins at {head.log_start_offset}.",
            {"log_start_offset": head.log_start_offset},
        )
        return
    if entry is None or entry.first_offset > offset:
        yield Reason(
            ReasonCode.BEYOND_END,
            f"Nothing stands at this offset; the last one is {view.last_offset}.",
            {"last_offset": view.last_offset},
        )
        return
    yield from _of_entry(view, entry, offset, isolation)


def _of_entry(view: View, entry: Row, offset: int, isolation: Isolation) -> Iterator[Reason]:
    txn_id = None if entry.tc_id is None else TxnID(entry.tc_id, entry.sequence)
    evidence: dict[str, object] = {} if txn_id is None else {"txn_id": str(txn_id)}
    stable: dict[str, object] = {"stable_position": view.stable_position}
    in_sidecar = view.buffer == BufferKind.SIDECAR
    if in_sidecar and kind_of(entry) is EntryKind.TXN_COMMIT and entry.txn_messages:
        yield Reason(
            ReasonCode.VISIBLE,
            f"Transaction {txn_id} has committed it; its marker stands for its messages here.",
            evidence | stable,
        )
        return
    if kind_of(entry) is not EntryKind.DATA:
        yield Reason(
            ReasonCode.MARKER,
            f"It is the marker that ended transaction {txn_id} here; nobody is given markers.",
            {**evidence, "kind": kind_of(entry).value},
        )
        return
    if isolation is Isolation.READ_UNCOMMITTED:
        yield Reason(ReasonCode.VISIBLE, "READ_UNCOMMITTED is given every message.", evidence)
        return
    if txn_id is not None:
        key = {"tc_id": txn_id.tc_id, "sequence": txn_id.sequence}
        span = view.one("aborted_span_of", **key, offset=offset)
        if span is not None:
            yield Reason(
                ReasonCode.ABORTED,
                f"Its transaction {txn_id} was aborted by the marker at {span.last_offset};"
                " nobody is ever given it.",
                {**evidence, "marker_offset": span.last_offset},
            )
            return
        ongoing = view.one("ongoing_of_txn", **key)
        if ongoing is not None and ongoing.first_offset <= offset:
            yield Reason(
                ReasonCode.OPEN,
                f"Its own transaction {txn_id} is open here; it becomes readable with its commit.",
                {**evidence, "first_offset": ongoing.first_offset},
            )
    if offset > view.stable_position:
        yield from _held_back(view, txn_id, stable)
        return
    yield Reason(ReasonCode.VISIBLE, "It lies at or below the stable position.", stable)


def _held_back(view: View, own: TxnID | None, evidence: dict[str, object]) -> Iterator[Reason]:
    for row in view.all("ongoing", above=-1, limit=1):
        holder = txn_of(row)
        if holder != own:
            yield Reason(
                ReasonCode.BLOCKED,
                f"Transaction {holder} has been open since offset {row.first_offset} and holds the"
                f" stable position at {view.stable_position}.",
                {**evidence, "txn_id": str(holder), "first_offset": row.first_offset},
            )


def _acknowledged(row: Row, offset: int) -> Reason | None:
    cursor = Cursor(mark_delete=row.mark_delete, acked=row.acked)
    if offset > cursor.mark_delete and offset not in cursor.acked:
        return None
    return Reason(
        ReasonCode.ACKNOWLEDGED,
        "It lies at or below the mark-delete position."
        if offset <= cursor.mark_delete
        else "It is acknowledged by itself, above the mark-delete position.",
        {"mark_delete_offset": cursor.mark_delete},
    )


def _pending(acks: Iterable[Row], offset: int) -> Reason | None:
    for row in acks:
        if offset in row.ranges:
            txn_id = txn_of(row)
            return Reason(
                ReasonCode.PENDING_ACK,
                f"Transaction {txn_id} has acknowledged it and is undecided; a commit deletes"
                " it, an abort gives it back.",
                {"txn_id": str(txn_id), "ack_type": row.ack_type},
            )
    return None


def _active_consumer(home: Row) -> Reason:
    return Reason(
        ReasonCode.ACTIVE_CONSUMER,
        f"Consumer {home.consumer} is the active one of this {home.type} subscription until it"
        " leaves or its lease runs out; no other is given anything.",
        {"consumer": home.consumer, "until": time_text(home.consumer_until)},
    )


def _whose(offset: int, dispatch: Dispatch, outstanding: Ranges) -> Iterator[Reason]:
    """The consumer that alone may get the message, because it has others of its key
    (docs/decisions/0009)."""
    if offset in outstanding:
        return
    for slot in dispatch.slots.values():
        if slot.consumer and offset in slot.ranges and slot.ranges & outstanding:
            yield Reason(
                ReasonCode.KEY_WITH_CONSUMER,
                f"Consumer {slot.consumer} has messages of its key that it has not acknowledged;"
                " until it has, no other is given more of them.",
                {"consumer": slot.consumer, "first_outstanding": (slot.ranges & outstanding).first},
            )


def _dispatched(offset: int, before: Dispatch, due: Dispatch) -> Reason:
    """The reason for a message that is neither deleted nor held: it is in flight, or due.

    Args:
        before, due: as it is stored, and as the next receive finds it.
    """
    sent = next((one for one in before.deliveries if offset in one.ranges), None)
    if sent is not None:
        until = datetime.fromtimestamp(sent.deadline_ms / 1000, UTC)
        evidence: dict[str, object] = {"consumer": sent.consumer, "until": time_text(until)}
        if offset in due.redeliver:
            text = "has not acknowledged it in time, or is replaced; it is to be delivered again."
            return Reason(ReasonCode.TO_REDELIVER, f"Consumer {sent.consumer} {text}", evidence)
        text = "has it until it acknowledges it, gives it back, or the acknowledgement times out."
        return Reason(ReasonCode.IN_FLIGHT, f"Consumer {sent.consumer} {text}", evidence)
    if offset in due.redeliver:
        return Reason(ReasonCode.TO_REDELIVER, "It was given back, and is to be delivered again.")
    text = "The subscription has not read as far yet."
    if offset < due.read_offset:
        text = "It has been passed over: no reader is given it."
    return Reason(ReasonCode.UNREAD, text, {"read_offset": due.read_offset})
