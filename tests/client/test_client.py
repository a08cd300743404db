"""The client against the running product."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import nullcontext
from datetime import UTC, datetime

import httpx
import pytest

from tests.server import Served
from txnconsole.client import (
    AsyncClient,
    BatchLimits,
    Client,
    InvalidRequest,
    InvalidTxnStatus,
    Message,
    NotAuthenticated,
    PermissionDenied,
    ProducerFenced,
    RetryPolicy,
    SubscriptionNotFound,
    TopicNotFound,
    TransactionAborted,
    TransactionConflict,
    TransactionNotFound,
    TransportOptions,
    TxnConsoleError,
    Unreachable,
    partition_for_key,
)

ENDED = 60.0


def test_committed_messages_are_read_in_the_order_in_which_they_were_sent(
    server: Served, admin: Client
) -> None:
    topic = server.topic(partitions=2)
    producer = admin.producer(topic, limits=BatchLimits(messages=3))
    with admin.transaction(timeout=600, client="test", properties={"why": "test"}) as txn:
        for number in range(10):
            producer.send(b"\xff%d" % number, key="UA", properties={"n": str(number)}, txn=txn)
    txn.commit(wait=ENDED)
    messages = list(admin.reader(topic, partition_for_key("UA", 2)))
    assert [message.payload for message in messages] == [b"\xff%d" % n for n in range(10)]
    assert messages[3].properties == {"n": "3"}
    assert messages[3].key == "UA"
    assert messages[3].txn_id == txn.txn_id
    assert messages[3].producer_name == producer.name


def test_an_aborted_transaction_leaves_nothing_for_read_committed(
    server: Served, admin: Client
) -> None:
    topic = server.topic()
    producer = admin.producer(topic)
    txn = admin.transaction()
    producer.send(b"aborted", txn=txn)
    producer.flush()
    assert txn.abort("a test", wait=ENDED).status == "ABORTED"
    producer.send(b"plain")
    producer.flush()
    assert _payloads(admin, topic) == [b"plain"]
    uncommitted = admin.reader(topic, 0, isolation="read_uncommitted")
    assert [message.payload for message in uncommitted] == [b"aborted", b"plain"]


def test_a_batch_sent_twice_is_stored_once(server: Served, admin: Client) -> None:
    topic = server.topic()
    producer = admin.producer(topic, name="p1", first_sequence_id=7)
    producer.send(b"1")
    producer.send(b"2")
    [batch] = producer.seal()
    first, second = producer.deliver(batch), producer.deliver(batch)
    assert (first.duplicate, second.duplicate) == (False, True)
    assert first.first_message_id == second.first_message_id
    assert _payloads(admin, topic) == [b"1", b"2"]


def test_acknowledgements_count_when_their_transaction_commits(
    server: Served, admin: Client
) -> None:
    topic = server.topic()
    admin.create_subscription(topic, "s", type="SHARED")
    _produce(admin, topic, 4)
    consumer = admin.consumer(topic, "s", name="c1")

    messages = consumer.receive(wait=60)
    txn = admin.transaction()
    answer = consumer.ack(*messages[:2], txn=txn)
    assert answer.pending == [message.message_id for message in messages[:2]]
    txn.abort(wait=ENDED)
    again = consumer.receive(wait=60)
    assert [message.payload for message in again] == [b"0", b"1"]

    with admin.transaction() as txn:
        consumer.ack(*again, txn=txn)
    txn.commit(wait=ENDED)
    consumer.nack(*messages)
    rest = consumer.receive(wait=60)
    assert [message.payload for message in rest] == [b"2", b"3"]
    assert sorted(consumer.ack(*rest).acked) == sorted(each.message_id for each in rest)
    consumer.nack(*rest)
    assert consumer.receive(wait=0) == []


def test_a_conflict_leaves_only_an_abort(server: Served, admin: Client) -> None:
    topic = server.topic()
    admin.create_subscription(topic, "s")
    _produce(admin, topic, 1)
    consumer = admin.consumer(topic, "s")
    messages = consumer.receive(wait=60)
    with admin.transaction() as first:
        consumer.ack(*messages, txn=first)
        second = admin.transaction()
        with pytest.raises(TransactionConflict) as caught:
            consumer.ack(*messages, txn=second)
        assert caught.value.data["conflicts"]
        with pytest.raises(TransactionAborted):
            second.commit()
    assert admin.transactions.outcome(first.txn_id) == "COMMITTED"
    assert admin.transactions.outcome(second.txn_id) == "ABORTED"


def test_consume_transform_produce_is_one_transaction(server: Served, admin: Client) -> None:
    source, target = server.topic(), server.topic()
    admin.create_subscription(source, "s")
    _produce(admin, source, 3)
    consumer = admin.consumer(source, "s")
    with admin.producer(target) as producer, admin.transaction() as txn:
        messages: list[Message] = consumer.receive(wait=60)
        for message in messages:
            producer.send(message.payload * 2, txn=txn)
        consumer.ack(*messages, txn=txn)
    info = txn.commit(wait=ENDED)
    assert info.status == "COMMITTED"
    assert [share.partition for share in info.partitions] == [f"{target}:0"]
    assert [share.topic for share in info.subscriptions] == [source]
    assert _payloads(admin, target) == [b"00", b"11", b"22"]


def test_transactions_are_found_and_ended_by_their_ids(admin: Client) -> None:
    client = f"test-{secrets.token_hex(4)}"
    opened = [admin.transaction(client=client).txn_id for _ in range(5)]
    listed = [each.txn_id for each in admin.transactions.list(client=client, limit=2)]
    assert sorted(listed) == sorted(opened)
    assert admin.transactions.get(opened[0]).status == "OPEN"
    assert admin.transactions.outcome(opened[0]) == "UNDECIDED"

    admin.transactions.abort(opened[0], reason="a test")
    admin.transactions.abort(opened[0], reason="a test")
    with pytest.raises(InvalidTxnStatus) as caught:
        admin.transactions.commit(opened[0])
    assert caught.value.data["current_status"] in {"ABORTING", "ABORTED"}
    assert admin.transactions.commit(opened[1], wait=ENDED).status == "COMMITTED"
    assert [each.txn_id for each in admin.transactions.list(client=client, status=["OPEN"])]


def test_a_group_is_ended_once_and_tells_each_status(admin: Client) -> None:
    group = secrets.token_hex(8)
    winner, loser = (admin.transaction(client=group).txn_id for _ in range(2))
    for duplicate in (False, True):
        ended = admin.transactions.end_group(group, guard="q", commit=[winner], abort=[loser])
        assert (ended.group, ended.duplicate) == (group, duplicate)
        statuses = {each.txn_id: each.status for each in ended.transactions}
        assert statuses.keys() == {winner, loser}
        assert statuses[winner] in ("COMMITTING", "COMMITTED")
        assert statuses[loser] in ("ABORTING", "ABORTED")
    with pytest.raises(ProducerFenced):
        admin.transactions.end_group(group, guard="another", commit=[winner], abort=[loser])


def test_a_transaction_is_extended(admin: Client) -> None:
    txn = admin.transaction(timeout=30)
    before = txn.info.deadline
    assert (txn.extend(120).deadline - before).total_seconds() > 60
    txn.abort()


def test_sending_in_an_ended_transaction_is_refused(server: Served, admin: Client) -> None:
    topic = server.topic()
    producer = admin.producer(topic)
    txn = admin.transaction()
    admin.transactions.abort(txn.txn_id, reason="by an operator")
    producer.send(b"late", txn=txn)
    with pytest.raises(TransactionAborted) as caught:
        txn.commit()
    assert isinstance(caught.value.__cause__, InvalidTxnStatus)
    assert _payloads(admin, topic) == []


def test_refusals_are_errors_of_their_code(server: Served, admin: Client) -> None:
    with pytest.raises(TopicNotFound):
        admin.producer("public/default/nowhere")
    with pytest.raises(TransactionNotFound):
        admin.transactions.get("0:999999999")
    with pytest.raises(InvalidRequest) as caught:
        admin.create_topic("public/default/x", partitions=0)
    assert caught.value.data["errors"]
    with Client(server.url, "wrong") as stranger, pytest.raises(NotAuthenticated):
        stranger.topic("public/default/nowhere")
    viewer = Client(server.url, server.token("viewer"))
    with viewer, pytest.raises(PermissionDenied):
        viewer.create_topic("public/default/x")


def test_a_retention_is_kept_when_it_is_left_out_and_lifted_by_none(
    server: Served, admin: Client
) -> None:
    topic = server.topic()
    assert admin.create_topic(topic, retention_ms=3_600_000).retention_ms == 3_600_000
    assert admin.create_topic(topic).retention_ms == 3_600_000
    assert admin.create_topic(topic, retention_ms=None).retention_ms is None


def test_a_closed_port_is_unreachable() -> None:
    options = TransportOptions(retry=RetryPolicy(deadline=0))
    with (
        Client("http://127.0.0.1:9", "token", options) as client,
        pytest.raises(Unreachable, match="ConnectError"),
    ):
        client.topic("public/default/flights")


def test_a_reader_waits_for_the_next_message_and_goes_on(server: Served, admin: Client) -> None:
    topic = server.topic()
    reader = admin.reader(topic, 0)
    assert list(reader) == []
    _produce(admin, topic, 2)
    assert [each.payload for each in reader.fetch(wait=60).messages] == [b"0", b"1"]
    assert list(reader) == []
    status = admin.partition(topic, 0)
    assert (status.last_offset, status.stable_position) == (1, 1)


def _produce(client: Client, topic: str, count: int) -> None:
    with client.producer(topic) as producer:
        for number in range(count):
            producer.send(str(number).encode())


def _payloads(client: Client, topic: str) -> list[bytes]:
    return [message.payload for message in client.reader(topic, 0)]


def test_a_subscription_is_moved_to_another_place(server: Served, admin: Client) -> None:
    topic = server.topic()
    admin.create_subscription(topic, "s")
    _produce(admin, topic, 3)
    consumer = admin.consumer(topic, "s")
    consumer.ack(*consumer.receive(wait=60))
    consumer.seek(offset=1, partition=0)
    assert [each.payload for each in consumer.receive(wait=60)] == [b"1", b"2"]
    consumer.seek(latest=True)
    assert consumer.receive(wait=0) == []
    consumer.seek(timestamp=datetime(2020, 1, 1, tzinfo=UTC))
    assert len(consumer.receive(wait=60)) == 3
    with pytest.raises(ValueError, match="Give one of offset"):
        consumer.seek(offset=1, latest=True)


def test_a_forced_seek_aborts_what_holds_acknowledgements(server: Served, admin: Client) -> None:
    topic = server.topic()
    admin.create_subscription(topic, "s")
    _produce(admin, topic, 1)
    consumer = admin.consumer(topic, "s")
    txn = admin.transaction()
    consumer.ack(*consumer.receive(wait=60), txn=txn)
    with pytest.raises(TxnConsoleError) as refused:
        consumer.seek(earliest=True)
    assert refused.value.code == "TopicInUse"
    consumer.seek(earliest=True, force=True, reason="replay")
    assert admin.transactions.get(txn.txn_id).status in ("ABORTING", "ABORTED")
    with server.client("admin") as rest:
        entries = rest.get("/audit", params={"action": "subscription.seek"}).json()["items"]
    [entry] = [each for each in entries if topic in each["object"] and each["result"] == "done"]
    assert entry["reason"] == "replay"
    assert len(consumer.receive(wait=60)) == 1


@pytest.mark.parametrize("kind", ["EXCLUSIVE", "FAILOVER", "SHARED"])
@pytest.mark.parametrize("failure", [None, KeyError])
def test_a_consumer_leaves_at_the_end_of_its_block(
    server: Served, admin: Client, kind: str, failure: type[Exception] | None
) -> None:
    topic = server.topic()
    admin.create_subscription(topic, "s", type=kind, initial_position="earliest")
    with admin.producer(topic) as producer:
        producer.send(b"a")

    def receive() -> None:
        with admin.consumer(topic, "s") as first:
            assert len(first.receive(wait=ENDED)) == 1
            if failure is not None:
                raise failure

    with nullcontext() if failure is None else pytest.raises(failure):
        receive()
    assert [message.payload for message in admin.consumer(topic, "s").receive()] == [b"a"]


def test_a_consumer_in_an_event_loop_leaves_at_the_end_of_its_block(
    server: Served, admin: Client
) -> None:
    topic = server.topic()
    admin.create_subscription(topic, "s", type="EXCLUSIVE")

    async def consume() -> None:
        async with AsyncClient(server.url, server.token("admin")) as client:
            for _ in range(2):
                async with client.consumer(topic, "s") as consumer:
                    assert await consumer.receive(wait=0) == []

    asyncio.run(consume())


def test_a_consumer_ends_its_block_though_it_cannot_leave(server: Served, admin: Client) -> None:
    """Its subscription is gone; where the server is, its lease ends."""
    topic = server.topic()
    admin.create_subscription(topic, "s")
    with admin.consumer(topic, "s"), server.client("admin") as http:
        http.delete(f"/topics/{topic}/subscriptions/s").raise_for_status()
    with pytest.raises(SubscriptionNotFound):
        admin.subscription(topic, "s")


def test_a_subscription_tells_how_far_it_is_behind(server: Served, admin: Client) -> None:
    topic = server.topic()
    admin.create_subscription(topic, "s", initial_position="earliest")
    with admin.producer(topic) as producer:
        for _ in range(3):
            producer.send(b"")
        producer.flush()
        consumer = admin.consumer(topic, "s")
        consumer.ack(consumer.receive(1, wait=ENDED)[0])
        txn = admin.transaction(timeout=600)
        producer.send(b"", txn=txn)
        producer.flush()
        producer.send(b"")
        producer.flush()
        found = admin.subscription(topic, "s")
        txn.abort()
    assert (found.type, found.unavailable) == ("SHARED", [])
    assert [(each.mark_delete_offset, each.backlog, each.blocked) for each in found.partitions] == [
        (0, 2, 2)
    ]


def test_a_subscription_tells_which_partitions_it_could_not_ask() -> None:
    answer = {
        "topic": "public/default/t",
        "subscription": "s",
        "type": "SHARED",
        "partitions": [],
        "unavailable": [{"partition": "public/default/t:1", "detail": "broker-2 is away."}],
    }
    network = httpx.MockTransport(lambda request: httpx.Response(200, json=answer))
    client = Client("http://127.0.0.1:1", "token", TransportOptions(http=network))
    [missing] = client.subscription("public/default/t", "s").unavailable
    assert missing.partition == "public/default/t:1"
