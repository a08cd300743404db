"""The client: one server, one token, and everything that is done with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar
from uuid import uuid4

from txnconsole.client import arguments, calls
from txnconsole.client.answers import PartitionStatus, SubscriptionInfo, TopicInfo
from txnconsole.client.asynchronous import AsyncioRuntime, AsyncTransportOptions, Opening
from txnconsole.client.batching import BatchLimits
from txnconsole.client.blocking import (
    Block,
    BlockingRuntime,
    Maker,
    Method,
    Opener,
    TransportOptions,
    complete,
)
from txnconsole.client.consumer import AsyncConsumer, Consumer
from txnconsole.client.process import Processed, Processor, Transform
from txnconsole.client.producer import AsyncProducer, Producer, ProducerIdentity
from txnconsole.client.reader import AsyncReader, Filter, Isolation, Order, Reader
from txnconsole.client.transaction import AsyncTransaction, Transaction
from txnconsole.client.transactions import AsyncTransactions, Transactions
from txnconsole.client.transport import Transport
from txnconsole.client.wire import Call

T = TypeVar("T")


class Operations:
    """What a client does, on any runtime: ``AsyncClient`` on an event loop, ``Client`` without.

    Attributes:
        transactions: look up, list and end transactions by id.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.transactions = AsyncTransactions(transport)

    def transaction(
        self,
        *,
        timeout: float | None = None,
        client: str = "",
        properties: Mapping[str, str] | None = None,
        coordinator_id: int | None = None,
        heartbeat: bool = False,
    ) -> Opening[AsyncTransaction]:
        """Open a transaction; use it in a ``with`` block, or commit or abort it yourself.

        ``timeout`` in seconds, by default the server's; ``client`` names the program to operators.
        With ``heartbeat`` the deadline keeps ``timeout`` ahead while the program lives.

        Raises:
            TypeError, ValueError: an argument cannot be; it is named.
        """
        call = calls.open_transaction(
            timeout_ms=None if timeout is None else arguments.milliseconds("timeout", timeout),
            coordinator_id=coordinator_id,
            client=client,
            properties=properties or {},
        )

        async def opened() -> AsyncTransaction:
            info = await self._transport.perform(call)
            granted = (info.timeout_ms or 0) / 1000
            beats = granted if heartbeat and granted else None
            return AsyncTransaction(self._transport, info, heartbeat=beats)

        return Opening(opened())

    def producer(
        self,
        topic: str,
        *,
        name: str | None = None,
        first_sequence_id: int | None = None,
        limits: BatchLimits | None = None,
    ) -> Opening[AsyncProducer]:
        """A producer on a topic.

        Without a name it gets one that nobody else has. With one, plain sends also need the first
        sequence id, above the last that the name has used on this topic.

        Raises:
            TypeError, ValueError: the name or the sequence id cannot be.
            TopicNotFound: there is no such topic.
        """
        if name is not None:
            arguments.text("name", name)
            if not name:
                raise ValueError("name is to be a name, or None for one that nobody else has.")
        if first_sequence_id is not None:
            arguments.whole("first_sequence_id", first_sequence_id, least=0)
        if name is None:
            name, first_sequence_id = f"producer-{uuid4().hex}", first_sequence_id or 0
        identity = ProducerIdentity(name=name, first_sequence_id=first_sequence_id)

        async def opened() -> AsyncProducer:
            found = await self.topic(topic)
            return AsyncProducer(
                self._transport,
                topic,
                identity,
                partitions=found.partitions,
                deduplication=found.deduplication,
                limits=limits or BatchLimits(),
            )

        return Opening(opened())

    def consumer(self, topic: str, subscription: str, *, name: str | None = None) -> AsyncConsumer:
        """A consumer on a subscription; without a name it gets one that nobody else has."""
        name = name or f"consumer-{uuid4().hex}"
        return AsyncConsumer(self._transport, topic, subscription, name=name)

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
    ) -> AsyncReader:
        """A reader of one partition from an offset on, ``max_messages`` a fetch; see Reader."""
        return AsyncReader(
            self._transport,
            topic,
            partition,
            isolation=isolation,
            order=order,
            filter_at=filter_at,
            from_offset=from_offset,
            max_messages=max_messages,
        )

    async def process(
        self,
        topic: str,
        subscription: str,
        *,
        to: str,
        transform: Transform,
        max_messages: int = 100,
        wait: float = 1.0,
        timeout: float | None = None,
        stop: Callable[[], bool] = lambda: False,
        until_empty: bool = False,
    ) -> Processed:
        """Consume from a subscription and produce to another topic, exactly once.

        ``transform`` makes of one message those to send, none or several; with AsyncClient it
        may be a coroutine function. Up to ``max_messages`` share a transaction, whose deadline
        is kept ``timeout`` seconds ahead while its batch is worked on. ``stop`` is asked between
        batches, at the latest after ``wait`` seconds: an event's ``is_set``. With ``until_empty``
        it ends when nothing is to be received.

        Raises:
            TxnConsoleError: the server cannot be reached, or refuses; nothing is lost or doubled.
        """
        consumer = self.consumer(topic, subscription)
        async with self.producer(to) as producer:
            processor = Processor(
                consumer,
                producer,
                transform,
                begin=lambda: self.transaction(
                    timeout=timeout, client=consumer.name, heartbeat=True
                ),
                # Once: who cannot be told so waits for the end of a lease, and no caller for this.
                leave=lambda: self._transport.attempt(
                    calls.leave(topic, subscription, consumer=consumer.name)
                ),
                runtime=self._transport.runtime,
            )
            return await processor.run(
                max_messages=max_messages, wait=wait, stop=stop, until_empty=until_empty
            )

    async def create_topic(
        self, /, topic: str, *, partitions: int | None = None, **settings: Any
    ) -> TopicInfo:
        """Create a topic or find it as it is; settings are those of the contract's PUT /topics. A
        new one has one partition, one that stands may grow.

        Raises:
            TopicConflict: it exists with settings that this would change.
        """
        call = calls.create_topic(topic, {"partitions": partitions} | settings)
        return await self._transport.perform(call)

    async def topic(self, topic: str) -> TopicInfo:
        """A topic's settings.

        Raises:
            TopicNotFound: there is no such topic.
        """
        return await self._transport.perform(calls.get_topic(topic))

    async def partition(self, topic: str, partition: int) -> PartitionStatus:
        """Where a partition stands."""
        return await self._transport.perform(calls.get_partition(topic, partition))

    async def create_subscription(
        self, /, topic: str, subscription: str, **settings: Any
    ) -> SubscriptionInfo:
        """Create a subscription or find it: ``type``, ``initial_position``, ``ack_timeout_ms``,
        ``consumer_lease_ms``, ``max_redeliveries`` with ``dead_letter_topic``.

        Raises:
            SubscriptionConflict: it exists, and a setting that is given here is another there.
        """
        return await self._transport.perform(
            calls.create_subscription(topic, subscription, settings)
        )

    async def perform(self, call: Call[T]) -> T:
        """Make a call of the contract that has no method here, with the client's retries.

        Raises:
            TxnConsoleError: what the server refused, or why it could not be asked.
        """
        return await self._transport.perform(call)

    async def poll(
        self, ask: Callable[[int], Call[T]], *, wait: float, done: Callable[[T], bool]
    ) -> T:
        """Make a waiting call of the contract again and again, each for so many ms as ``ask`` is
        given, until an answer is ``done`` or ``wait`` seconds have passed.

        Raises:
            TxnConsoleError: what the server refused, or why it could not be asked.
        """
        return await self._transport.poll(ask, wait=wait, done=done)

    async def close(self) -> None:
        """End heartbeats and lingering batches, then close the connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncClient(Operations):
    """A connection pool to one server, as the principal of one token, for one event loop.

    Its producers may be shared between tasks; consumers and readers are each for one at a time.
    ``transaction`` and ``producer`` open something: await them, or use them in ``async with``.
    """

    def __init__(self, url: str, token: str, options: AsyncTransportOptions | None = None) -> None:
        super().__init__(Transport(AsyncioRuntime(url, token, options or AsyncTransportOptions())))


class Client(Block[Operations]):
    """A connection pool to one server, as the principal of one token.

    Safe to share between threads, and so are its producers; consumers, readers and transactions
    are each for one thread at a time.

    Attributes:
        transactions: look up, list and end transactions by id.
    """

    def __init__(self, url: str, token: str, options: TransportOptions | None = None) -> None:
        runtime = BlockingRuntime(url, token, options or TransportOptions())
        super().__init__(Operations(Transport(runtime)))
        self.transactions = Transactions(self.core.transactions)

    transaction = Opener(Operations.transaction, Transaction)
    producer = Opener(Operations.producer, Producer)
    consumer = Maker(Operations.consumer, Consumer)
    reader = Maker(Operations.reader, Reader)
    process = Method(Operations.process)
    create_topic = Method(Operations.create_topic)
    topic = Method(Operations.topic)
    partition = Method(Operations.partition)
    create_subscription = Method(Operations.create_subscription)
    close = Method(Operations.close)

    def perform(self, call: Call[T]) -> T:
        """Make a call of the contract that has no method here, with the client's retries.

        Raises:
            TxnConsoleError: what the server refused, or why it could not be asked.
        """
        return complete(self.core.perform(call))

    def poll(self, ask: Callable[[int], Call[T]], *, wait: float, done: Callable[[T], bool]) -> T:
        """Make a waiting call of the contract again and again, each for so many ms as ``ask`` is
        given, until an answer is ``done`` or ``wait`` seconds have passed.

        Raises:
            TxnConsoleError: what the server refused, or why it could not be asked.
        """
        return complete(self.core.poll(ask, wait=wait, done=done))
