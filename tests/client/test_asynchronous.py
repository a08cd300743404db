"""AsyncClient: the operations that Client has, in an event loop."""

from __future__ import annotations

import asyncio
import inspect
import secrets

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import txnconsole.client
from tests.client.faults import TOPIC, FaultyLog, async_client, client
from tests.server import Served
from txnconsole.client import (
    AsyncClient,
    AsyncConsumer,
    AsyncProducer,
    AsyncReader,
    AsyncTransaction,
    BatchLimits,
    Client,
    Consumer,
    InvalidTxnStatus,
    Producer,
    Reader,
    Transaction,
    TransactionAborted,
    TransactionEnded,
    TxnConsoleError,
)
from txnconsole.statuses import STATUS_OF_CODE

FAULTS = st.lists(st.sampled_from([None, None, "refused", "lost answer", 503]), max_size=40)


@pytest.mark.parametrize(
    ("synchronous", "asynchronous"),
    [
        (Client, AsyncClient),
        (Producer, AsyncProducer),
        (Consumer, AsyncConsumer),
        (Reader, AsyncReader),
        (Transaction, AsyncTransaction),
    ],
)
def test_both_clients_have_the_same_names(synchronous: type, asynchronous: type) -> None:
    def names(kind: type) -> set[str]:
        return {
            name
            for name, value in inspect.getmembers(kind)
            if not name.startswith("_") and not isinstance(value, property)
        }

    internal = {"flush_transaction", "discard_transaction"}
    assert names(synchronous) == names(asynchronous) - internal


def test_every_code_of_the_server_has_its_class() -> None:
    for code in STATUS_OF_CODE:
        problem = {"code": code, "detail": "why"}
        error = TxnConsoleError.of_problem(problem, status=400, retry_after=None)
        assert type(error).__name__ == code
        assert getattr(txnconsole.client, code) is type(error)


@given(FAULTS, st.integers(1, 30), st.integers(1, 7))
def test_whatever_is_lost_every_message_is_stored_once_in_order(
    faults: list[str | int | None], count: int, batch: int
) -> None:
    network = FaultyLog(faults)

    async def scenario() -> None:
        async with async_client(network, deadline=1000) as server:
            limits = BatchLimits(messages=batch)
            async with server.producer(TOPIC, limits=limits) as producer:
                for number in range(count):
                    await producer.send(str(number).encode(), key="UA")

    asyncio.run(scenario())
    assert [int(payload) for _, _, payload in network.messages] == list(range(count))


def test_the_block_commits_or_aborts() -> None:
    network = FaultyLog()

    async def scenario() -> None:
        server = async_client(network)
        producer = await server.producer(TOPIC)
        async with server.transaction() as txn:
            await producer.send(b"1", txn=txn)
        assert txn.info.status == "COMMITTED"
        async with server.transaction() as txn:
            await producer.send(b"2", txn=txn)
            raise KeyError

    with pytest.raises(KeyError):
        asyncio.run(scenario())
    assert network.requests[-1] == "POST /transactions/0:7/abort"
    assert [payload for _, _, payload in network.messages] == [b"1"]


def test_a_failed_operation_aborts_even_when_its_exception_was_caught() -> None:
    network = FaultyLog([None, 409])

    async def scenario() -> None:
        server = async_client(network)
        producer = await server.producer(TOPIC)
        txn = await server.transaction()
        await producer.send(b"1", txn=txn)
        with pytest.raises(InvalidTxnStatus):
            await producer.flush(txn)
        with pytest.raises(TransactionAborted):
            await txn.commit()

    asyncio.run(scenario())
    assert "POST /transactions/0:7/commit" not in network.requests


def test_a_cancelled_acknowledgement_leaves_only_an_abort() -> None:
    class Cancelling(FaultyLog):
        def _answer(self, request: object, path: str) -> object:  # type: ignore[override]
            if path.endswith("/ack"):
                raise asyncio.CancelledError
            return super()._answer(request, path)  # type: ignore[arg-type]

    network = Cancelling()

    async def scenario() -> None:
        server = async_client(network)
        txn = await server.transaction()
        with pytest.raises(asyncio.CancelledError):
            await server.consumer(TOPIC, "s").ack("0:0:0:0", txn=txn)
        with pytest.raises(TransactionAborted):
            await txn.commit()

    asyncio.run(scenario())


@pytest.mark.parametrize("interrupted", ["/messages", "/commit"])
@pytest.mark.parametrize("heartbeat", [False, True])
def test_a_commit_that_is_cancelled_aborts_and_beats_no_more(
    interrupted: str, heartbeat: bool
) -> None:
    class Cancelling(FaultyLog):
        def _answer(self, request: object, path: str) -> object:  # type: ignore[override]
            if path.endswith(interrupted):
                raise asyncio.CancelledError
            return super()._answer(request, path)  # type: ignore[arg-type]

    network = Cancelling()

    async def scenario() -> None:
        server = async_client(network)
        producer = await server.producer(TOPIC)
        with pytest.raises(asyncio.CancelledError):
            async with server.transaction(heartbeat=heartbeat) as txn:
                await producer.send(b"1", txn=txn)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert network.requests[-1] == "POST /transactions/0:7/abort"
        txn = await server.transaction(heartbeat=heartbeat)
        await producer.send(b"2", txn=txn)
        with pytest.raises(asyncio.CancelledError):
            await txn.commit()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())
    assert network.requests[-1] == "POST /transactions/0:7/abort"


def test_a_commit_that_is_cancelled_when_it_has_been_recorded_stays_one() -> None:
    class Cancelling(FaultyLog):
        def _answer(self, request: object, path: str) -> object:  # type: ignore[override]
            answer = super()._answer(request, path)  # type: ignore[arg-type]
            if path.endswith("/commit"):
                raise asyncio.CancelledError
            return answer

    network = Cancelling([None, None, 409])

    async def scenario() -> None:
        with pytest.raises(asyncio.CancelledError) as caught:
            async with async_client(network).transaction():
                pass
        assert not hasattr(caught.value, "__notes__")

    asyncio.run(scenario())
    assert network.requests[-1] == "POST /transactions/0:7/abort"


def test_the_two_clients_do_not_share_a_transaction() -> None:
    server, _ = client(FaultyLog())
    txn = server.transaction()

    async def scenario() -> None:
        producer = await async_client(FaultyLog()).producer(TOPIC)
        with pytest.raises(ValueError, match="cannot work together"):
            await producer.send(b"1", txn=txn)

    asyncio.run(scenario())


def test_the_synchronous_client_refuses_to_wait_for_an_event_loop() -> None:
    from txnconsole.client.blocking import complete

    with pytest.raises(RuntimeError, match="use AsyncClient"):
        complete(asyncio.sleep(0))


def test_tasks_share_a_producer_and_every_message_arrives(server: Served) -> None:
    topic = server.topic()

    async def scenario() -> list[bytes]:
        async with AsyncClient(server.url, server.token("admin")) as one:
            async with one.producer(topic, limits=BatchLimits(messages=3)) as producer:
                await asyncio.gather(*(producer.send(str(n).encode()) for n in range(10)))
            name = f"test-{secrets.token_hex(4)}"
            opened = [await one.transaction(client=name) for _ in range(3)]
            listed = [each.txn_id async for each in one.transactions.list(client=name, limit=2)]
            assert sorted(listed) == sorted(txn.txn_id for txn in opened)
            for txn in opened:
                await txn.abort()
            return [message.payload async for message in one.reader(topic, 0)]

    assert asyncio.run(scenario()) == [str(number).encode() for number in range(10)]


def test_a_message_that_waits_while_its_transaction_is_aborted_is_refused_and_left_nowhere() -> (
    None
):
    network = FaultyLog()

    async def scenario() -> None:
        reached, answer = asyncio.Event(), asyncio.Event()

        async def hold(request: httpx.Request) -> None:
            if request.url.path.endswith("/messages") and not reached.is_set():
                reached.set()
                await answer.wait()

        server = async_client(network, before=hold)
        producer = await server.producer(TOPIC, limits=BatchLimits(messages=2))
        txn = await server.transaction()
        await producer.send(b"plain")
        sending = asyncio.create_task(producer.flush())
        await reached.wait()
        waiting = asyncio.create_task(producer.send(b"late", txn=txn))
        ending = asyncio.create_task(txn.abort())
        await asyncio.sleep(0)
        answer.set()
        await asyncio.gather(sending, ending)
        with pytest.raises(TransactionEnded):
            await waiting
        assert await producer.flush() == []

    asyncio.run(scenario())
    assert [payload for _, _, payload in network.messages] == [b"plain"]
