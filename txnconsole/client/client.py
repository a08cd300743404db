"""The client of one server, with one token: everything starts from it."""

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
from txnconsole.client.process import Processed, Processor, Transform, take_over
from txnconsole.client.producer import AsyncProducer, Producer, ProducerIdentity
from txnconsole.client.reader import AsyncReader, Filter, Isolation, Order, Reader
from txnconsole.client.runtime import Token
from txnconsole.client.transaction import AsyncTransaction, Transaction
from txnconsole.client.transactions import AsyncTransactions, Transactions
from txnconsole.client.transport import Transport
from txnconsole.client.wire import Call

T = TypeVar("T")


class Operations:
    """What a client does, on either runtime: ``AsyncClient`` inherits it, ``Client`` wraps it.

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

        ``timeout`` is in seconds (None: the server's default); ``client`` names the program to
        operators. With ``heartbeat`` the deadline is extended again and again while the program
        runs, so the timeout counts from its end.

        Raises:
            TypeError, ValueError: an argument is wrong; the text names it.
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

        Without a name it gets a unique one. With a name, sends outside transactions also need the
        first sequence id: one above the last that was used under this name on this topic.

        Raises:
            TypeError, ValueError: the name or the sequence id is wrong.
            TopicNotFound: there is no such topic.
        """
        if name is not None:
            arguments.name("name", name)
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
        """A consumer on a subscription; without a name it gets a unique one.

        Raises:
            TypeError, ValueError: the name is wrong.
        """
        if name is None:
            name = f"consumer-{uuid4().hex}"
        arguments.name("name", name)
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
        cursor: str | None = None,
        max_messages: int = 500,
    ) -> AsyncReader:
        """A reader of one partition from an offset on, or from where another reader of the same
        order was, by its ``cursor``; with up to ``max_messages`` in each fetch. :class:`Reader`
        explains the other arguments."""
        return AsyncReader(
            self._transport,
            topic,
            partition,
            isolation=isolation,
            order=order,
            filter_at=filter_at,
            from_offset=from_offset,
            cursor=cursor,
            max_messages=max_messages,
        )

    async def process(
        self,
        topic: str,
        subscription: str,
        *,
        to: str,
        transform: Transform,
        name: str | None = None,
        max_messages: int = 100,
        wait: float = 1.0,
        timeout: float | None = None,
        stop: Callable[[], bool] = lambda: False,
        until_empty: bool = False,
    ) -> Processed:
        """Consume from a subscription and produce to another topic, exactly once.

        ``transform`` is given each message and returns the messages to send, any number of them;
        with AsyncClient it may be a coroutine function. Up to ``max_messages`` share a transaction,
        whose deadline is kept ``timeout`` seconds ahead while they are worked on. ``stop`` is
        called between batches, at least every ``wait`` seconds, and tells whether to end; an
        event's ``is_set`` will do. With ``until_empty`` it also ends when no message is left.

        ``name`` is that of the consumer and of the transactions' client, by default a unique one. A
        name of your own, which no other running instance has, lets one that was killed go on at
        once: the transactions that it left open are aborted, and what it had in flight comes first.

        Raises:
            TypeError, ValueError: the name is wrong.
            TxnConsoleError: the server cannot be reached or refuses; nothing is lost or doubled.
        """
        consumer = self.consumer(topic, subscription, name=name)
        if name is not None:
            caller = await self._transport.perform(calls.get_caller())
            await take_over(self.transactions, consumer, owner=caller.name)
        async with self.producer(to) as producer, consumer:
            processor = Processor(
                consumer,
                producer,
                transform,
                begin=lambda: self.transaction(
                    timeout=timeout, client=consumer.name, heartbeat=True
                ),
                look_up=lambda: self.subscription(topic, subscription),
                runtime=self._transport.runtime,
            )
            return await processor.run(
                max_messages=max_messages, wait=wait, stop=stop, until_empty=until_empty
            )

    async def create_topic(
        self, /, topic: str, *, partitions: int | None = None, **settings: Any
    ) -> TopicInfo:
        """Create a topic, or find that it exists. Settings are those of the contract's PUT /topics.
        A new topic has one partition by default; an existing one gets more when asked for more.
        Settings that are left out stay as they are; a retention of None is without limit.

        Raises:
            TopicConflict: it exists with other settings.
        """
        if partitions is not None:
            settings["partitions"] = partitions
        call = calls.create_topic(topic, settings)
        return await self._transport.perform(call)

    async def topic(self, topic: str) -> TopicInfo:
        """A topic's settings.

        Raises:
            TopicNotFound: there is no such topic.
        """
        return await self._transport.perform(calls.get_topic(topic))

    async def partition(self, topic: str, partition: int) -> PartitionStatus:
        """Where a partition stands.

        Raises:
            TopicNotFound, PartitionNotFound: there is no such partition.
        """
        return await self._transport.perform(calls.get_partition(topic, partition))

    async def create_subscription(
        self, /, topic: str, subscription: str, **settings: Any
    ) -> SubscriptionInfo:
        """Create a subscription, or find that it exists. Settings are ``type``,
        ``initial_position``, ``ack_timeout_ms``, ``consumer_lease_ms``, and ``max_redeliveries``
        with ``dead_letter_topic``.

        Raises:
            SubscriptionConflict: it exists with another value of a setting that is given.
        """
        return await self._transport.perform(
            calls.create_subscription(topic, subscription, settings)
        )

    async def subscription(self, topic: str, subscription: str) -> SubscriptionInfo:
        """Where a subscription stands in each partition: what is acknowledged, in flight, and left
        (``backlog``).

        Raises:
            TopicNotFound, SubscriptionNotFound: there is none.
        """
        return await self._transport.perform(calls.get_subscription(topic, subscription))

    async def perform(self, call: Call[T]) -> T:
        """Make a call of the contract that has no method here, with the client's retries.

        Raises:
            TxnConsoleError: the server refused it, or could not be reached.
        """
        return await self._transport.perform(call)

    async def poll(
        self,
        ask: Callable[[int], Call[T]],
        *,
        wait: float,
        done: Callable[[T], bool],
        decides: bool = False,
    ) -> T:
        """Repeat a call of the contract that waits on the server, until its answer is ``done`` or
        ``wait`` seconds have passed. ``ask`` makes the call, given its waiting time in ms. Where
        the first answer ``decides``, the last one is returned when a later call fails.

        Raises:
            TxnConsoleError: the server refused it, or could not be reached.
        """
        return await self._transport.poll(ask, wait=wait, done=done, decides=decides)

    async def close(self) -> None:
        """End heartbeats and lingering batches, then close the connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncClient(Operations):
    """A connection pool to one server, as the principal of one token, for one event loop. Instead
    of a token it takes a function that gives the present one; it is called for each request.

    Its producers may be shared between tasks; consumers and readers are each for one at a time.
    ``transaction`` and ``producer`` open what they return: await them, or use them in an
    ``async with`` block.
    """

    def __init__(
        self, url: str, token: Token, options: AsyncTransportOptions | None = None
    ) -> None:
        super().__init__(Transport(AsyncioRuntime(url, token, options or AsyncTransportOptions())))


class Client(Block[Operations]):
    """A connection pool to one server, as the principal of one token. Instead of a token it takes a
    function that gives the present one; it is called for each request.

    Safe to share between threads, and so are its producers; consumers, readers and transactions
    are each for one thread at a time.

    Attributes:
        transactions: look up, list and end transactions by id.
    """

    def __init__(self, url: str, token: Token, options: TransportOptions | None = None) -> None:
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
    subscription = Method(Operations.subscription)
    close = Method(Operations.close)

    def perform(self, call: Call[T]) -> T:
        """Make a call of the contract that has no method here, with the client's retries.

        Raises:
            TxnConsoleError: the server refused it, or could not be reached.
        """
        return complete(self.core.perform(call))

    def poll(
        self,
        ask: Callable[[int], Call[T]],
        *,
        wait: float,
        done: Callable[[T], bool],
        decides: bool = False,
    ) -> T:
        """Repeat a call of the contract that waits on the server, until its answer is ``done`` or
        ``wait`` seconds have passed. ``ask`` makes the call, given its waiting time in ms. Where
        the first answer ``decides``, the last one is returned when a later call fails.

        Raises:
            TxnConsoleError: the server refused it, or could not be reached.
        """
        return complete(self.core.poll(ask, wait=wait, done=done, decides=decides))
