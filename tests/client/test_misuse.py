"""What no server could take, and what comes too late: refused here, each by an error that says why,
before anything is sent."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from math import inf, nan
from signal import alarm
from threading import Event
from typing import Any

import httpx
import msgspec
import pytest

from tests.client.faults import TOPIC, FaultyLog, async_client, client
from txnconsole.api.decoding import check_time
from txnconsole.api.structs.batches import PackedMessageIn
from txnconsole.client import (
    BatchLimits,
    Client,
    ClientClosed,
    NewMessage,
    ProducerClosed,
    RetryPolicy,
    TransactionEnded,
)
from txnconsole.client.process import messages_of

NAIVE = datetime(2024, 1, 1)  # noqa: DTZ001 - that is the point
EAST = timezone(timedelta(hours=5))
WRONG_MESSAGES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"payload": "text"}, TypeError, "payload"),
    ({"payload": None}, TypeError, "payload"),
    ({"payload": 7}, TypeError, "payload"),
    ({"key": 7}, TypeError, "key"),
    ({"key": b"k"}, TypeError, "key"),
    ({"key": 7, "partition": 0}, TypeError, "key"),
    ({"key": "\ud800", "partition": 0}, ValueError, "key"),
    ({"key": "a\0", "partition": 0}, ValueError, "key"),
    ({"key": "k" * 1025, "partition": 0}, ValueError, "key"),
    ({"properties": {"a": 1}}, TypeError, "properties"),
    ({"properties": {"a\0": "b"}}, ValueError, "properties"),
    ({"properties": {"a": "\0"}}, ValueError, "properties"),
    ({"properties": {str(number): "" for number in range(65)}}, ValueError, "properties"),
    ({"properties": {1: "a"}}, TypeError, "properties"),
    ({"properties": {"a": "\udc00"}}, ValueError, "properties"),
    ({"properties": ["a"]}, TypeError, "properties"),
    ({"event_time": NAIVE}, ValueError, "event_time"),
    ({"event_time": datetime(1, 12, 31, tzinfo=UTC)}, ValueError, "event_time"),
    ({"event_time": datetime(1, 1, 1, tzinfo=EAST)}, ValueError, "event_time"),
    ({"event_time": datetime(2, 1, 1, tzinfo=EAST)}, ValueError, "event_time"),
    ({"event_time": datetime(9999, 1, 1, tzinfo=UTC)}, ValueError, "event_time"),
    ({"event_time": "2024-01-01T00:00:00Z"}, TypeError, "event_time"),
    ({"event_time": 12.5}, TypeError, "event_time"),
    ({"partition": -1}, ValueError, "partition"),
    ({"partition": "0"}, TypeError, "partition"),
    ({"partition": True}, TypeError, "partition"),
    ({"txn": "0:7"}, TypeError, "txn"),
]


@pytest.mark.parametrize(("wrong", "kind", "field"), WRONG_MESSAGES)
def test_a_message_that_cannot_be_is_refused_by_name_and_leaves_the_others(
    wrong: dict[str, Any], kind: type[Exception], field: str
) -> None:
    network = FaultyLog()
    server, _ = client(network)
    producer = server.producer(TOPIC)
    producer.send(b"before", partition=0)
    sent = len(network.requests)
    with pytest.raises(kind, match=field):
        producer.send(**({"payload": b"x"} | wrong))
    assert len(network.requests) == sent
    producer.send(b"behind", partition=0)
    producer.flush()
    assert network.messages == [(0, None, b"before"), (0, None, b"behind")]


def test_what_the_server_takes_at_most_is_taken() -> None:
    longest = {
        "key": "k" * 1024,
        "properties": {str(number): "" for number in range(64)},
    }
    for name, most in longest.items():
        NewMessage(payload=b"", **{name: most})  # type: ignore[arg-type]
        msgspec.convert({"payload": b"", name: most}, PackedMessageIn)
    for moment in (datetime(2, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, 23, 59, tzinfo=UTC)):
        NewMessage(payload=b"", event_time=moment)
        check_time("event_time", moment)


def test_an_event_loops_producer_refuses_the_same() -> None:
    async def main() -> list[tuple[int, str | None, bytes]]:
        network = FaultyLog()
        producer = await async_client(network).producer(TOPIC)
        for wrong, kind, field in WRONG_MESSAGES:
            with pytest.raises(kind, match=field):
                await producer.send(**({"payload": b"x"} | wrong))
        await producer.send(b"behind", partition=0)
        await producer.flush()
        return network.messages

    assert asyncio.run(main()) == [(0, None, b"behind")]


def test_a_message_is_what_it_was_when_it_was_sent() -> None:
    payload, properties = bytearray(b"abc"), {"a": "1"}
    message = NewMessage(payload=payload, properties=properties)  # type: ignore[arg-type]
    payload[0], properties["a"] = 0, "2"
    assert (message.payload, message.properties) == (b"abc", {"a": "1"})


NUMBERS: list[Callable[[Client], Any]] = [
    lambda server: server.transaction(timeout=-1),
    lambda server: server.transaction(timeout=0),
    lambda server: server.transaction(timeout=nan),
    lambda server: server.transaction(timeout=inf),
    lambda server: server.transaction(timeout=1e300),
    lambda server: server.transaction(coordinator_id=nan),  # type: ignore[arg-type]
    lambda server: server.consumer(TOPIC, "s").receive(wait=nan),
    lambda server: server.consumer(TOPIC, "s").seek(offset=nan),  # type: ignore[arg-type]
    lambda server: server.consumer(TOPIC, "s").seek(timestamp=NAIVE),
    lambda server: server.reader(TOPIC, 0).fetch(wait=nan),
    lambda server: server.reader(TOPIC, -1).fetch(),
    lambda server: server.transactions.commit("0:7", wait=nan),
    lambda server: server.create_topic(TOPIC, partitions=nan),  # type: ignore[arg-type]
    lambda server: server.create_topic(TOPIC, retention_ms=inf),
    lambda server: server.create_subscription(TOPIC, "s", ack_timeout_ms=nan),
    lambda server: server.producer(TOPIC, name="p", first_sequence_id=-1),
    lambda server: server.producer(TOPIC, name=""),
    lambda server: server.consumer(TOPIC, "s", name=""),
    lambda server: server.process(TOPIC, "s", to=TOPIC, transform=lambda message: [], name=""),
    lambda server: BatchLimits(messages=0),
    lambda server: BatchLimits(bytes=-1),
    lambda server: BatchLimits(linger=nan),
    lambda server: BatchLimits(linger=-0.1),
    lambda server: BatchLimits(linger=inf),
    lambda server: RetryPolicy(deadline=nan),
    lambda server: RetryPolicy(first_delay=-1),
    lambda server: server.reader(TOPIC, 0, filter_at="x"),  # type: ignore[arg-type]
    lambda server: server.reader(TOPIC, 0, from_offset=3, cursor="x"),
]  # fmt: skip


@pytest.mark.parametrize("call", NUMBERS)
def test_a_number_that_cannot_be_is_a_value_error_and_nothing_is_sent(
    call: Callable[[Client], Any],
) -> None:
    network = FaultyLog()
    server, _ = client(network)
    with pytest.raises(ValueError):  # noqa: PT011 - each says another thing
        call(server)
    assert network.requests == []


OTHER_TYPES: list[Callable[[Client], Any]] = [
    lambda server: server.transaction(timeout="5"),  # type: ignore[arg-type]
    lambda server: server.transaction(properties={"a": 1}),  # type: ignore[dict-item]
    lambda server: server.consumer(TOPIC, "s").receive(wait="5"),  # type: ignore[arg-type]
    lambda server: server.consumer(TOPIC, "s").ack(7),  # type: ignore[arg-type]
    lambda server: server.consumer(TOPIC, "s").nack(None),  # type: ignore[arg-type]
    lambda server: server.consumer(TOPIC, "s").ack("0:0:0:0", txn="0:7"),  # type: ignore[arg-type]
    lambda server: server.consumer(TOPIC, None).receive(),  # type: ignore[arg-type]
    lambda server: server.topic(None),  # type: ignore[arg-type]
    lambda server: server.topic(7),  # type: ignore[arg-type]
    lambda server: server.partition(TOPIC, "0/../1"),  # type: ignore[arg-type]
    lambda server: server.reader(TOPIC, None).fetch(),  # type: ignore[arg-type]
    lambda server: server.producer(TOPIC, name=7),  # type: ignore[arg-type]
    lambda server: BatchLimits(linger="1"),  # type: ignore[arg-type]
    lambda server: messages_of(None),  # type: ignore[arg-type]
    lambda server: messages_of([b"raw"]),  # type: ignore[list-item]
]


@pytest.mark.parametrize("call", OTHER_TYPES)
def test_something_of_another_type_is_a_type_error_that_tells_what_it_is_to_be(
    call: Callable[[Client], Any],
) -> None:
    network = FaultyLog()
    server, _ = client(network)
    with pytest.raises(TypeError, match=r", not (a )?[A-Za-z]+\.$"):
        call(server)
    assert network.requests == []


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x"])
def test_a_name_that_would_lead_elsewhere_is_refused(name: str) -> None:
    """As ``subscriptions/..`` is the topic, which a DELETE of the subscription would delete."""
    network = FaultyLog()
    server, _ = client(network)
    calls: list[Callable[[], object]] = [
        lambda: server.create_subscription(TOPIC, name),
        lambda: server.consumer(TOPIC, name).receive(),
        lambda: server.topic(f"public/default/{name}"),
        lambda: server.transactions.get(name),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"is not a|cannot be"):
            call()
    assert network.requests == []


def test_a_closed_client_says_that_it_is_closed_and_can_be_closed_again() -> None:
    server, _ = client(FaultyLog())
    producer, txn = server.producer(TOPIC), server.transaction()
    server.close()
    server.close()
    producer.send(b"x")
    for call in (producer.flush, txn.commit, server.transaction, lambda: server.producer(TOPIC)):
        with pytest.raises(ClientClosed):
            call()


def test_an_event_loops_client_says_the_same() -> None:
    async def main() -> None:
        server = async_client(FaultyLog())
        await server.close()
        await server.close()
        with pytest.raises(ClientClosed):
            await server.transaction()

    asyncio.run(main())


def test_a_client_refuses_in_another_event_loop_than_that_of_its_first_call() -> None:
    """Its connections are the first one's: what waited for them would never be woken."""
    network = FaultyLog()
    server = async_client(network)

    async def send() -> None:
        async with server.producer(TOPIC) as producer:
            await producer.send(b"x")

    asyncio.run(send())
    sent = len(network.requests)
    for call in (send, server.close):
        with pytest.raises(ClientClosed, match="another event loop"):
            asyncio.run(call())
    assert len(network.requests) == sent


def test_a_block_whose_client_is_closed_inside_keeps_its_exception() -> None:
    server, _ = client(FaultyLog())

    def fail() -> None:
        with server.transaction():
            server.close()
            raise KeyError

    with pytest.raises(KeyError) as caught:
        fail()
    assert "could not be aborted either" in caught.value.__notes__[0]


def test_a_client_of_before_a_fork_refuses_in_the_child_and_ends_nothing_there() -> None:
    network = FaultyLog()
    server, _ = client(network)
    producer, told = server.producer(TOPIC), os.pipe()
    with server.transaction() as txn:
        producer.send(b"x", txn=txn)
        child = os.fork()
        if not child:
            sent = len(network.requests)
            try:
                with pytest.raises(ClientClosed, match="another process"), txn:
                    producer.flush(txn)
                os.write(told[1], str(len(network.requests) - sent).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(told[1])
        with os.fdopen(told[0]) as answer:
            assert answer.read() == "0"
    assert txn.info.status == "COMMITTED"
    assert [payload for _, _, payload in network.messages] == [b"x"]


def test_a_producer_of_before_a_fork_takes_nothing_in_the_child_though_it_was_sending() -> None:
    """What it took there would be lost: nobody is left who would send it once it has lingered."""
    sending, goes_on = Event(), Event()

    class Held(FaultyLog):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/messages"):
                sending.set()
                goes_on.wait()
            return super().handle_request(request)

    server, _ = client(Held())
    producer, told = server.producer(TOPIC, limits=BatchLimits(linger=0.0)), os.pipe()
    producer.send(b"x")
    sending.wait()
    child = os.fork()
    if not child:
        alarm(10)  # Who waits for a thread of the parent's waits for ever.
        try:
            for call in (partial(producer.send, b"y"), producer.flush, producer.close):
                with pytest.raises(ClientClosed, match="another process"):
                    call()
            os.write(told[1], b"refused")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    goes_on.set()
    producer.close()
    os.close(told[1])
    with os.fdopen(told[0]) as answer:
        assert answer.read() == "refused"


def test_what_is_sent_after_the_close_is_refused_and_not_lost() -> None:
    network = FaultyLog()
    server, _ = client(network)
    producer = server.producer(TOPIC)
    producer.send(b"x")
    producer.close()
    producer.close()
    with pytest.raises(ProducerClosed):
        producer.send(b"y")
    assert [payload for _, _, payload in network.messages] == [b"x"]


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_transaction_that_has_been_ended_takes_nothing_more_and_stays_as_it_ended(
    end: str,
) -> None:
    network = FaultyLog()
    server, _ = client(network)
    txn, producer = server.transaction(), server.producer(TOPIC)
    ended = getattr(txn, end)()
    sent = len(network.requests)
    consumer = server.consumer(TOPIC, "s")
    for call in (
        lambda: producer.send(b"x", txn=txn),
        lambda: consumer.ack("0:0:0:0", txn=txn),
        lambda: consumer.ack_cumulative("0:0:0:0", txn=txn),
        lambda: txn.extend(5),
    ):
        with pytest.raises(TransactionEnded, match=r"0:7 .*COMM|0:7 .*ABORT"):
            call()
    assert len(network.requests) == sent
    assert producer.flush() == []
    txn.fail(KeyError())
    assert getattr(txn, end)().status == ended.status
    assert f"POST /transactions/0:7/{end}" in network.requests[-1]


def test_a_time_with_a_zone_is_a_time() -> None:
    NewMessage(payload=b"", event_time=datetime(2024, 1, 1, tzinfo=UTC))
