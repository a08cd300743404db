"""Every request and every answer is cut, repeated and sent late: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.client.proxy import Fault, Hurting, hurting
from tests.server import Served
from tests.support.eventually import eventually
from txnconsole.client import (
    AsyncClient,
    AsyncTransportOptions,
    BatchLimits,
    Client,
    Message,
    NewMessage,
    RetryPolicy,
    TransportOptions,
)

RETRY = RetryPolicy(first_delay=0.001, max_delay=0.01, deadline=60)
LIMITS = BatchLimits(messages=2)
MESSAGES = [str(number).encode() for number in range(6)]


@pytest.fixture
def network(server: Served) -> Iterator[Hurting]:
    with hurting(server.url) as network:
        yield network
        assert all(network.met[fault] > 10 for fault in Fault)


@pytest.fixture
def topics(server: Served, admin: Client) -> tuple[str, str]:
    source, target = server.topic(), server.topic()
    admin.create_subscription(source, "s", type="SHARED", ack_timeout_ms=1000)
    return source, target


def twice(message: Message) -> list[NewMessage]:
    return [NewMessage(payload=message.payload * 2, key=message.key)]


def check(admin: Client, topics: tuple[str, str]) -> None:
    """What was sent is there once, in order; what was made of it is there once."""
    source, target = topics
    assert [each.payload for each in admin.reader(source, 0)] == MESSAGES
    made = [each.payload for each in admin.reader(target, 0)]
    assert sorted(made) == [payload * 2 for payload in MESSAGES]
    assert admin.consumer(source, "s").receive(wait=0) == []


@pytest.mark.deep
def test_the_client_loses_and_doubles_nothing(
    server: Served, admin: Client, network: Hurting, topics: tuple[str, str]
) -> None:
    source, target = topics
    options = TransportOptions(retry=RETRY)
    with Client(network.url, server.token("admin"), options) as client:
        with client.producer(source, limits=LIMITS) as producer:
            with client.transaction(timeout=60) as txn:
                for payload in MESSAGES[:3]:
                    producer.send(payload, txn=txn)
            txn.commit(wait=30)
            for payload in MESSAGES[3:]:
                producer.send(payload)
        done = 0
        while done < len(MESSAGES):
            done += client.process(
                source, "s", to=target, transform=twice, max_messages=4, wait=5, until_empty=True
            ).received
    _await_committed(admin, topics)
    check(admin, topics)


@pytest.mark.deep
def test_the_asynchronous_client_loses_and_doubles_nothing(
    server: Served, admin: Client, network: Hurting, topics: tuple[str, str]
) -> None:
    source, target = topics

    async def scenario() -> None:
        options = AsyncTransportOptions(retry=RETRY)
        async with AsyncClient(network.url, server.token("admin"), options) as client:
            async with client.producer(source, limits=LIMITS) as producer:
                async with client.transaction(timeout=60) as txn:
                    for payload in MESSAGES[:3]:
                        await producer.send(payload, txn=txn)
                await txn.commit(wait=30)
                for payload in MESSAGES[3:]:
                    await producer.send(payload)
            done = 0
            while done < len(MESSAGES):
                processed = await client.process(
                    source,
                    "s",
                    to=target,
                    transform=twice,
                    max_messages=4,
                    wait=5,
                    until_empty=True,
                )
                done += processed.received

    asyncio.run(scenario())
    _await_committed(admin, topics)
    check(admin, topics)


def _await_committed(admin: Client, topics: tuple[str, str]) -> None:
    """Wait until what was decided is carried out in the target's partition."""

    def carried_out() -> bool:
        target = admin.partition(topics[1], 0)
        return target.stable_position >= target.last_offset

    assert eventually(carried_out)
