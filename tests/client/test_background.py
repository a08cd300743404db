"""What goes on beside the caller: lingering batches and heartbeats, in both runtimes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from threading import Event
from typing import Any

import httpx
import pytest

from tests.client.faults import TOPIC, FaultyLog, async_client, client
from txnconsole.client import (
    BatchLimits,
    ClientClosed,
    InvalidTxnStatus,
    TransactionAborted,
    Unreachable,
    partition_for_key,
)
from txnconsole.client.blocking import complete
from txnconsole.client.heartbeat import Heartbeat
from txnconsole.client.runtime import request_settings
from txnconsole.client.wire import Call

LIMITS = BatchLimits(linger=0.001)
WAIT = 60.0


class WatchedLog(FaultyLog):
    """Tells when enough requests to a path have come."""

    def __init__(self, ending: str, count: int, faults: Iterable[str | int | None] = ()) -> None:
        super().__init__(faults)
        self._ending, self._left = ending, count
        self.reached = Event()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        try:
            return super().handle_request(request)
        finally:
            self._left -= request.url.path.endswith(self._ending)
            if self._left <= 0:
                self.reached.set()


def test_a_message_that_has_lingered_is_sent_without_a_flush() -> None:
    network = WatchedLog("/messages", 1)
    server, _ = client(network)
    with server, server.producer(TOPIC, limits=LIMITS) as producer:
        producer.send(b"1")
        assert network.reached.wait(WAIT)
    assert [payload for _, _, payload in network.messages] == [b"1"]


def test_the_linger_begins_again_with_the_next_message() -> None:
    first, second = WatchedLog("/messages", 1), WatchedLog("/messages", 2)
    for network in (first, second):
        server, _ = client(network)
        producer = server.producer(TOPIC, limits=LIMITS)
        producer.send(b"1", partition=0)
        if network is second:
            while not network.messages:
                network.reached.wait(0.001)
            producer.send(b"2", partition=0)
        assert network.reached.wait(WAIT)
        server.close()
    assert [payload for _, _, payload in second.messages] == [b"1", b"2"]


def test_a_lingering_batch_that_is_lost_is_sent_again_and_stored_once() -> None:
    network = WatchedLog("/messages", 2, ["lost answer"])
    server, _ = client(network, deadline=0)
    producer = server.producer(TOPIC, limits=LIMITS)
    producer.send(b"1")
    assert network.reached.wait(WAIT)
    producer.close()
    assert [payload for _, _, payload in network.messages] == [b"1"]


def test_the_refusal_of_a_lingering_batch_is_raised_by_the_next_call() -> None:
    network = WatchedLog("/messages", 1, [409])
    server, _ = client(network)
    producer = server.producer(TOPIC, limits=LIMITS)
    producer.send(b"1")
    assert network.reached.wait(WAIT)
    with pytest.raises(InvalidTxnStatus):
        producer.flush()
    assert producer.flush() == []


def test_a_lingering_batch_that_is_refused_leaves_its_transaction_only_an_abort() -> None:
    network = WatchedLog("/messages", 1, [None, 409])
    server, _ = client(network)
    producer = server.producer(TOPIC, limits=LIMITS)
    txn = server.transaction()
    producer.send(b"1", txn=txn)
    assert network.reached.wait(WAIT)
    with pytest.raises((TransactionAborted, InvalidTxnStatus)):
        txn.commit()
    assert not any(request.endswith("/commit") for request in network.requests)


def test_the_refusal_of_a_lingering_batch_is_its_transactions_and_no_other_call_raises_it() -> None:
    network = WatchedLog("/messages", 1, [None, 409])
    server, _ = client(network)
    producer = server.producer(TOPIC, limits=LIMITS)
    txn = server.transaction()
    producer.send(b"1", txn=txn)
    assert network.reached.wait(WAIT)
    producer.send(b"2", partition=0)
    with pytest.raises(TransactionAborted):
        txn.commit()
    producer.send(b"3", partition=0)
    producer.close()
    assert [payload for _, _, payload in network.messages] == [b"2", b"3"]


def test_closing_the_client_ends_what_goes_on_beside() -> None:
    network = WatchedLog("/messages", 1)
    server, _ = client(network)
    producer = server.producer(TOPIC, limits=BatchLimits(linger=3600))
    server.transaction(timeout=3600, heartbeat=True)
    producer.send(b"1")
    server.close()
    assert network.messages == []


def test_a_heartbeat_extends_until_the_transaction_ends() -> None:
    network = WatchedLog("/extend", 2)
    server, _ = client(network)
    with server.transaction(timeout=0.003, heartbeat=True):
        assert network.reached.wait(WAIT)
    assert network.requests[-1].endswith("/commit")


@pytest.mark.parametrize("fault", ["lost answer", "no token"])
def test_a_heartbeat_without_an_answer_is_made_up_for(fault: str) -> None:
    network = WatchedLog("/extend", 2, [None, fault])
    server, _ = client(network)
    with server.transaction(timeout=0.003, heartbeat=True):
        assert network.reached.wait(WAIT)
    assert network.requests[-1].endswith("/commit")


@pytest.mark.parametrize("timeout", [1, 60, 600])
@pytest.mark.parametrize("frozen", [False, True])
def test_after_two_beats_without_an_answer_the_third_comes_before_the_deadline(
    timeout: float, frozen: bool
) -> None:
    """Also when the server is frozen, so that each beat takes as long as it may."""

    class Unheard:
        def __init__(self) -> None:
            self.runtime, self.now, self.beats = self, 0.0, list[float]()

        def start(self, work: Any) -> None:
            self.beat = work

        def clock(self) -> float:
            return self.now

        async def attempt(self, call: Call[Any]) -> None:
            self.beats.append(self.now)
            self.now += frozen and request_settings(call)["timeout"].read
            raise Unreachable("no answer", maybe_sent=True)

        async def wait(self, seconds: float) -> bool:
            assert seconds >= 0
            self.now += seconds
            return len(self.beats) == 3

    network: Any = Unheard()
    server, _ = client(FaultyLog())
    Heartbeat(network, server.transaction().core, timeout)
    complete(network.beat(network))
    assert network.beats == [timeout / 4, timeout / 2, timeout * 3 / 4]


def test_a_refused_heartbeat_leaves_only_an_abort() -> None:
    network = WatchedLog("/extend", 1, [None, 409])
    server, _ = client(network)
    txn = server.transaction(timeout=0.003, heartbeat=True)
    assert network.reached.wait(WAIT)
    with pytest.raises(TransactionAborted):
        txn.commit()


def test_a_commit_that_is_cancelled_while_a_heart_beats_aborts() -> None:
    network = FaultyLog()
    beating = asyncio.Event()
    answered = asyncio.Event()

    async def scenario() -> None:
        async def slowly(request: httpx.Request) -> None:
            if request.url.path.endswith("/extend"):
                beating.set()
                await answered.wait()

        async with async_client(network, before=slowly) as server:
            txn = await server.transaction(timeout=0.003, heartbeat=True)
            await beating.wait()
            committing = asyncio.create_task(txn.commit())
            await asyncio.sleep(0)
            committing.cancel()
            asyncio.get_running_loop().call_later(0.01, answered.set)
            with pytest.raises(asyncio.CancelledError):
                await committing

    asyncio.run(scenario())
    assert [request.rsplit("/", 1)[1] for request in network.requests[1:]] == ["extend", "abort"]


@pytest.mark.parametrize("deduplication", [True, False])
def test_a_batch_whose_sending_is_cancelled_is_sent_again_only_where_that_is_no_other(
    deduplication: bool,
) -> None:
    network = FaultyLog(deduplication=deduplication)

    async def scenario() -> list[bool]:
        sending = asyncio.Event()

        async def never_answered(request: httpx.Request) -> None:
            if request.method == "POST" and not sending.is_set():
                sending.set()
                await asyncio.Event().wait()

        async with async_client(network, before=never_answered) as server:
            producer = await server.producer(TOPIC)
            await producer.send(b"1", partition=0)
            flush = asyncio.create_task(producer.flush())
            await sending.wait()
            flush.cancel()
            with pytest.raises(asyncio.CancelledError):
                await flush
            return [answer.duplicate for answer in await producer.flush()]

    assert asyncio.run(scenario()) == ([False] if deduplication else [])


def test_in_an_event_loop_batches_linger_and_hearts_beat_too() -> None:
    lingering, beating = WatchedLog("/messages", 1), WatchedLog("/extend", 2)

    async def scenario() -> None:
        async with async_client(lingering) as server:
            producer = await server.producer(TOPIC, limits=LIMITS)
            await producer.send(b"1")
            assert await asyncio.to_thread(lingering.reached.wait, WAIT)
        server = async_client(beating)
        async with server, server.transaction(timeout=0.003, heartbeat=True):
            assert await asyncio.to_thread(beating.reached.wait, WAIT)

    asyncio.run(scenario())
    assert len(lingering.messages) == 1
    assert beating.requests[-1].endswith("/commit")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_producer_finds_partitions_that_were_added_after_a_while(asynchronous: bool) -> None:
    network = FaultyLog()
    moving = next(key for key in map(str, range(99)) if partition_for_key(key, 3) == 2)

    def used() -> set[int]:
        return {partition for partition, _, _ in network.messages}

    def in_a_thread() -> None:
        server, slept = client(network)
        with server, server.producer(TOPIC) as producer:
            network.partitions = 3
            producer.send(b"before", key=moving)
            slept.append(60)
            while 2 not in used():
                producer.send(b"after", key=moving)
                producer.flush()

    async def in_a_loop() -> None:
        server = async_client(network)
        async with server, server.producer(TOPIC) as producer:
            network.partitions = 3
            await producer.send(b"before", key=moving)
            await server._transport.runtime.sleep(60)
            while 2 not in used():
                await producer.send(b"after", key=moving)
                await producer.flush()
                await asyncio.sleep(0)

    asyncio.run(in_a_loop()) if asynchronous else in_a_thread()
    assert used() == {partition_for_key(moving, 2), 2}
    assert network.requests.count(f"GET /topics/{TOPIC}") == 2


def test_a_look_for_new_partitions_that_fails_fails_no_send() -> None:
    class Away(WatchedLog):
        def _topic(self, request: httpx.Request, path: str) -> httpx.Response:
            if self.requests.count(f"GET /topics/{TOPIC}") > 1:
                raise httpx.ConnectError("refused", request=request)
            return super()._topic(request, path)

    network = Away(TOPIC, 2)
    server, slept = client(network)
    with server, server.producer(TOPIC) as producer:
        for payload in (b"1", b"2", b"3"):
            slept.append(30)
            producer.send(payload, partition=0 if payload == b"1" else None, key="UA")
        assert network.reached.wait(WAIT)
    assert network.requests.count(f"GET /topics/{TOPIC}") == 2
    assert len(network.messages) == 3


def test_closing_a_client_that_is_cancelled_closes_it_and_stops_all_that_goes_on_beside() -> None:
    network = FaultyLog()

    async def scenario() -> None:
        beating, answered = [asyncio.Event(), asyncio.Event()], asyncio.Event()

        async def slowly(request: httpx.Request) -> None:
            if request.url.path.endswith("/extend"):
                next(each for each in beating if not each.is_set()).set()
                await answered.wait()

        server = async_client(network, before=slowly)
        for event in beating:
            await server.transaction(timeout=0.003, heartbeat=True)
            await event.wait()
        closing = asyncio.create_task(server.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(ClientClosed):
            await server.topic(TOPIC)
        answered.set()
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)

    asyncio.run(scenario())
    assert len([each for each in network.requests if each.endswith("/extend")]) == 2
