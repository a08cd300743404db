"""Reading in both orders and with both filters, on the running product."""

from __future__ import annotations

from tests.server import Served
from txnconsole.client import Client, Reader, Transaction

ENDED = 30.0


def payloads(reader: Reader) -> list[bytes]:
    return [message.payload for message in reader]


def test_both_filters_and_both_orders_give_the_committed_messages(
    server: Served, admin: Client
) -> None:
    topic = server.topic()
    producer = admin.producer(topic)

    def send(text: bytes, txn: Transaction | None = None) -> None:
        producer.send(text, txn=txn)
        producer.flush()

    slow, gone, quick = (admin.transaction(timeout=60) for _ in range(3))
    send(b"before")
    send(b"gone", gone)
    send(b"quick 1", quick)
    gone.abort("a test", wait=ENDED)
    send(b"slow", slow)
    send(b"quick 2", quick)
    quick.commit(wait=ENDED)
    send(b"after")

    following = admin.reader(topic, 0, order="committed", max_messages=1)
    assert payloads(following) == [b"before", b"quick 1", b"quick 2", b"after"]
    assert payloads(admin.reader(topic, 0)) == [b"before", b"quick 1"]
    slow.commit(wait=ENDED)
    [found] = following.fetch(wait=10).messages
    assert found.payload == b"slow"
    assert payloads(following) == []

    published = [b"before", b"quick 1", b"slow", b"quick 2", b"after"]
    for size in (1, 2, 3, 500):
        for filter_at in ("server", "client"):
            reader = admin.reader(topic, 0, filter_at=filter_at, max_messages=size)
            assert payloads(reader) == published
    following.next_offset = 0
    assert sorted(payloads(following)) == sorted(published)
