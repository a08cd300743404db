"""Consume, transform, produce, on the running product."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import msgspec
import pytest

from tests.server import Served
from txnconsole.client import (
    Client,
    Message,
    NewMessage,
    PermissionDenied,
    TopicNotFound,
    TransportOptions,
    TxnConsoleError,
)

ENDED = 60.0


def prepared(server: Served, admin: Client, count: int) -> tuple[str, str]:
    source, target = server.topic(), server.topic()
    admin.create_subscription(source, "s")
    with admin.producer(source) as producer:
        for number in range(count):
            producer.send(str(number).encode())
    return source, target


def payloads(admin: Client, topic: str, count: int) -> list[bytes]:
    """The committed messages, once there are so many."""
    reader = admin.reader(topic, 0)
    found: list[bytes] = []
    while len(found) < count:
        messages = reader.fetch(wait=ENDED).messages
        assert messages
        found += [message.payload for message in messages]
    return found


def test_every_batch_is_one_transaction(server: Served, admin: Client) -> None:
    source, target = prepared(server, admin, 5)

    def split(message: Message) -> list[NewMessage]:
        return [NewMessage(payload=message.payload)] * int(message.payload)

    done = admin.process(
        source, "s", to=target, transform=split, max_messages=2, wait=0, until_empty=True
    )
    assert (done.received, done.sent, done.committed, done.aborted) == (5, 10, 3, 0)
    assert payloads(admin, target, 10) == [str(n).encode() for n in range(5) for _ in range(n)]


def test_a_batch_whose_transaction_is_aborted_is_processed_again(
    server: Served, admin: Client
) -> None:
    source, target = prepared(server, admin, 2)
    aborted: list[str] = []

    def aborting(message: Message) -> list[NewMessage]:
        """An operator aborts the first transaction while its batch is worked on."""
        if not aborted:
            mine = admin.transactions.list(status=["OPEN"], owner="test-admin", order="newest")
            [txn] = [each for each in mine if each.timeout_ms == 77_000]
            aborted.append(txn.txn_id)
            admin.transactions.abort(txn.txn_id, reason="a test", wait=ENDED)
        return [NewMessage(payload=message.payload)]

    # The timeout tells its transactions from all others of the owner.
    done = admin.process(
        source, "s", to=target, transform=aborting, wait=60, timeout=77, stop=_after(2)
    )
    assert (done.received, done.committed, done.aborted) == (2, 1, 1)
    assert payloads(admin, target, 2) == [b"0", b"1"]


@pytest.mark.parametrize("kind", ["EXCLUSIVE", "FAILOVER", "KEY_SHARED"])
def test_the_next_run_need_not_wait_for_the_lease_of_the_one_before(
    server: Served, admin: Client, kind: str
) -> None:
    source, target = server.topic(), server.topic()
    admin.create_subscription(source, "s", type=kind)
    for _ in range(2):
        with admin.producer(source) as producer:
            for number in range(8):
                producer.send(b"", key=str(number))
        done = admin.process(
            source, "s", to=target, transform=lambda message: [], wait=5, until_empty=True
        )
        assert done.received == 8


@pytest.mark.parametrize("failure", [KeyError, KeyboardInterrupt])
def test_an_exception_gives_the_batch_back(
    server: Served, admin: Client, failure: type[BaseException]
) -> None:
    source, target = prepared(server, admin, 2)

    def fail(message: Message) -> list[NewMessage]:
        raise failure

    with pytest.raises(failure):
        admin.process(source, "s", to=target, transform=fail, wait=60)
    again = admin.consumer(source, "s").receive(wait=60)
    assert [message.payload for message in again] == [b"0", b"1"]
    assert list(admin.reader(target, 0)) == []


@pytest.mark.parametrize("refusal", [TopicNotFound, PermissionDenied])
def test_what_the_server_refuses_gives_the_batch_back_and_is_not_tried_again(
    server: Served, admin: Client, refusal: type[TxnConsoleError]
) -> None:
    source, target = prepared(server, admin, 2)

    def make(message: Message) -> list[NewMessage]:
        if refusal is TopicNotFound:
            with server.client("admin") as http:
                http.delete(f"/topics/{target}")
        return [NewMessage(payload=message.payload)]

    role = "consumer" if refusal is PermissionDenied else "admin"
    with Client(server.url, server.token(role)) as client, pytest.raises(refusal):
        client.process(source, "s", to=target, transform=make, wait=60, stop=_after(2))
    again = admin.consumer(source, "s").receive(wait=60)
    assert [message.payload for message in again] == [b"0", b"1"]


def test_an_exception_passes_also_when_its_batch_cannot_be_given_back(
    server: Served, admin: Client
) -> None:
    source, target = prepared(server, admin, 1)

    def fail(message: Message) -> list[NewMessage]:
        with server.client("admin") as http:
            http.delete(f"/topics/{source}/subscriptions/s").raise_for_status()
        raise KeyError(message.payload)

    with pytest.raises(KeyError) as failed:
        admin.process(source, "s", to=target, transform=fail, wait=60)
    [note] = failed.value.__notes__
    assert "could not be given back" in note
    assert "no subscription s" in note


class LosingFirstReceived(httpx.BaseTransport):
    """Loses the first answer that has messages."""

    def __init__(self) -> None:
        self._real = httpx.HTTPTransport()
        self.lost = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self._real.handle_request(request)
        if not self.lost and request.url.path.endswith("/receive"):
            self.lost = len(msgspec.msgpack.decode(response.read())["messages"])
            raise httpx.ReadError("reset", request=request)
        return response


@pytest.mark.parametrize("kind", ["SHARED", "EXCLUSIVE"])
def test_what_came_in_a_lost_answer_is_processed_before_it_is_said_to_be_empty(
    server: Served, admin: Client, kind: str
) -> None:
    source, target = server.topic(), server.topic()
    admin.create_subscription(source, "s", type=kind)
    with admin.producer(source) as producer:
        for number in range(3):
            producer.send(str(number).encode())
    network = LosingFirstReceived()
    with Client(server.url, server.token("admin"), TransportOptions(http=network)) as client:
        done = client.process(
            source,
            "s",
            to=target,
            transform=lambda message: [NewMessage(payload=message.payload)],
            max_messages=2,
            wait=0,
            until_empty=True,
        )
    assert network.lost == 2
    assert done.received == 3
    assert sorted(payloads(admin, target, 3)) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("kind", ["SHARED", "KEY_SHARED", "EXCLUSIVE", "FAILOVER"])
def test_under_the_name_of_a_run_that_was_killed_the_next_one_goes_on_at_once_and_in_order(
    server: Served, admin: Client, kind: str
) -> None:
    source, target = server.topic(), server.topic()
    admin.create_subscription(source, "s", type=kind)
    with admin.producer(source) as producer:
        for number in range(6):
            producer.send(str(number).encode(), key="one")
    with Client(server.url, server.token("producer,consumer")) as client:
        # Killed where it would commit, with another batch received.
        killed = client.consumer(source, "s", name=target)
        txn = client.transaction(timeout=3600, client=target)
        with client.producer(target) as producer:
            for message in killed.receive(2, wait=ENDED):
                producer.send(b"of the killed run", txn=txn)
                producer.flush(txn)
                killed.ack(message, txn=txn)
        assert len(killed.receive(1, wait=ENDED)) == 1
        done = client.process(
            source,
            "s",
            to=target,
            transform=lambda message: [NewMessage(payload=message.payload)],
            name=target,
            until_empty=True,
        )
        assert done.received == 6
        assert client.transactions.get(txn.txn_id).end_reason == "client"
    assert payloads(admin, target, 6) == [str(n).encode() for n in range(6)]


def test_a_run_under_a_name_of_its_own_leaves_the_transactions_of_others_alone(
    server: Served, admin: Client
) -> None:
    source, target = prepared(server, admin, 1)
    with Client(server.url, server.token("producer")) as other:
        others = other.transaction(timeout=3600, client=target)
        mine = admin.transaction(timeout=3600, client="of another name")
        admin.process(
            source, "s", to=target, transform=lambda message: [], name=target, until_empty=True
        )
        others.commit()
        mine.commit()


def test_a_run_that_has_taken_over_goes_on_though_what_it_would_abort_is_committed_meanwhile(
    server: Served, admin: Client
) -> None:
    """The one before lives, and commits between the look and the abort."""
    source, target = prepared(server, admin, 1)
    txn = admin.transaction(timeout=3600, client=target)

    class Committing(httpx.BaseTransport):
        real = httpx.HTTPTransport()

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith(f"/{txn.txn_id}/abort"):
                txn.commit()
            return self.real.handle_request(request)

    options = TransportOptions(http=Committing())
    with Client(server.url, server.token("admin"), options) as client:
        done = client.process(
            source, "s", to=target, transform=lambda message: [], name=target, until_empty=True
        )
    assert done.received == 1
    assert admin.transactions.outcome(txn.txn_id) == "COMMITTED"


def _after(batches: int) -> Callable[[], bool]:
    """Stop after so many batches."""
    asked = iter(range(batches))
    return lambda: next(asked, None) is None
