"""The client: one server, one token, and everything that is done with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import uuid4

from txnconsole.client import calls
from txnconsole.client.answers import (
    EndedGroup,
    PartitionStatus,
    SubscriptionInfo,
    TopicInfo,
    TransactionInfo,
)
from txnconsole.client.batching import BatchLimits
from txnconsole.client.consumer import Consumer
from txnconsole.client.producer import Producer, ProducerIdentity
from txnconsole.client.reader import Filter, Isolation, Order, Reader
from txnconsole.client.transaction import Transaction
from txnconsole.client.transport import Transport, TransportOptions
from txnconsole.client.wire import Call

T = TypeVar("T")


class Transactions:
    """Transactions by their id, for operators and for programs that lost an answer."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def get(self, txn_id: str) -> TransactionInfo:
        """The transaction with its participants.

        Raises:
            TransactionNotFound: there is none, or it is another principal's.
        """
        return self._transport.perform(calls.get_transaction(txn_id))

    def list(self, **filters: Any) -> Iterator[TransactionInfo]:
        """All that match, page by page; filters are the query parameters of the contract."""
        query = dict(filters)
        while True:
            page = self._transport.perform(calls.list_transactions(query))
            yield from page.items
            if page.next_cursor is None:
                return
            query["cursor"] = page.next_cursor

    def outcome(self, txn_id: str) -> str:
        """``COMMITTED``, ``ABORTED`` or ``UNDECIDED``, for every id ever issued."""
        return self._transport.perform(calls.outcome(txn_id)).outcome

    def commit(self, txn_id: str, *, wait: float = 0.0) -> TransactionInfo:
        """Commit; ``wait`` seconds at most for COMMITTED.

        Raises:
            InvalidTxnStatus: it has been aborted.
        """
        return self._transport.perform(calls.commit(txn_id, wait_ms=round(wait * 1000)))

    def abort(self, txn_id: str, *, reason: str = "", wait: float = 0.0) -> TransactionInfo:
        """Abort; of another's transaction an operator must give the ``reason``.

        Raises:
            InvalidTxnStatus: it has been committed.
        """
        call = calls.abort(txn_id, reason=reason, wait_ms=round(wait * 1000))
        return self._transport.perform(call)

    def end_group(
        self, group: str, *, guard: str, commit: Sequence[str] = (), abort: Sequence[str] = ()
    ) -> EndedGroup:
        """End several transactions by one atomic decision, made once under the group's name.

        Raises:
            ProducerFenced: another guard has decided this group.
            InvalidTxnStatus: one of them has been ended the other way; none is changed.
        """
        call = calls.end_group(group, guard=guard, commit=commit, abort=abort)
        return self._transport.perform(call)


class Client:
    """A connection pool to one server, as the principal of one token.

    Safe to share between threads; its producers, consumers, readers and transactions are each
    for one thread at a time.

    Attributes:
        transactions: look up, list and end transactions by id.
    """

    def __init__(self, url: str, token: str, options: TransportOptions | None = None) -> None:
        self._transport = Transport(url, token, options or TransportOptions())
        self.transactions = Transactions(self._transport)

    def transaction(
        self,
        *,
        timeout: float | None = None,
        client: str = "",
        properties: Mapping[str, str] | None = None,
        coordinator_id: int | None = None,
    ) -> Transaction:
        """Open a transaction; use it in a ``with`` block, or commit or abort it yourself.

        ``timeout`` in seconds, by default the server's; ``client`` names the program to operators.
        """
        call = calls.open_transaction(
            timeout_ms=None if timeout is None else round(timeout * 1000),
            coordinator_id=coordinator_id,
            client=client,
            properties=properties or {},
        )
        return Transaction(self._transport, self._transport.perform(call))

    def producer(
        self,
        topic: str,
        *,
        name: str | None = None,
        first_sequence_id: int | None = None,
        limits: BatchLimits | None = None,
    ) -> Producer:
        """A producer on a topic.

        Without a name it gets one that nobody else has. With one, plain sends also need the first
        sequence id, above the last that the name has used on this topic.

        Raises:
            TopicNotFound: there is no such topic.
        """
        if name is None:
            name, first_sequence_id = f"producer-{uuid4().hex}", first_sequence_id or 0
        return Producer(
            self._transport,
            topic,
            ProducerIdentity(name=name, first_sequence_id=first_sequence_id),
            partitions=self.topic(topic).partitions,
            limits=limits or BatchLimits(),
        )

    def consumer(self, topic: str, subscription: str, *, name: str | None = None) -> Consumer:
        """A consumer on a subscription; without a name it gets one that nobody else has."""
        name = name or f"consumer-{uuid4().hex}"
        return Consumer(self._transport, topic, subscription, name=name)

    def reader(
        self,
        topic: str,
        partition: int,
        *,
        isolation: Isolation = "read_committed",
        order: Order = "published",
        filter_at: Filter = "server",
        from_offset: int = 0,
        max_messages: int = 500,
    ) -> Reader:
        """A reader of one partition from an offset on, ``max_messages`` a fetch; see Reader."""
        return Reader(
            self._transport,
            topic,
            partition,
            isolation=isolation,
            order=order,
            filter_at=filter_at,
            from_offset=from_offset,
            max_messages=max_messages,
        )

    def create_topic(self, topic: str, *, partitions: int = 1, **settings: Any) -> TopicInfo:
        """Create a topic or find it as it is; settings are those of the contract's PUT /topics.

        Raises:
            TopicConflict: it exists with settings that this would change.
        """
        call = calls.create_topic(topic, {"partitions": partitions} | settings)
        return self._transport.perform(call)

    def topic(self, topic: str) -> TopicInfo:
        """A topic's settings.

        Raises:
            TopicNotFound: there is no such topic.
        """
        return self._transport.perform(calls.get_topic(topic))

    def partition(self, topic: str, partition: int) -> PartitionStatus:
        """Where a partition stands."""
        return self._transport.perform(calls.get_partition(topic, partition))

    def create_subscription(
        self, topic: str, subscription: str, **settings: Any
    ) -> SubscriptionInfo:
        """Create a subscription or find it: ``type``, ``initial_position``, ``ack_timeout_ms``,
        ``consumer_lease_ms``, ``max_redeliveries`` with ``dead_letter_topic``.

        Raises:
            SubscriptionConflict: it exists with another type.
        """
        return self._transport.perform(calls.create_subscription(topic, subscription, settings))

    def perform(self, call: Call[T]) -> T:
        """Make a call of the contract that has no method here, with the client's retries.

        Raises:
            TxnConsoleError: what the server refused, or why it could not be asked.
        """
        return self._transport.perform(call)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
