"""Reading in both orders and with both filters, on the running product."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.client.cutting import cut
from tests.server import Served
from txnconsole.client import Client, LogTruncated, Reader, Transaction
from txnconsole.client.reader import Order

ENDED = 60.0


def payloads(reader: Reader) -> list[bytes]:
    return [message.payload for message in reader]


def topic_of_six(server: Served, admin: Client) -> str:
    """A topic with the messages 0 to 5."""
    topic = server.topic()
    with admin.producer(topic) as producer:
        for number in range(6):
            producer.send(str(number).encode())
    return topic


def test_both_filters_and_both_orders_give_the_committed_messages(
    server: Served, admin: Client
) -> None:
    topic = server.topic()
    producer = admin.producer(topic)

    def send(text: bytes, txn: Transaction | None = None) -> None:
        producer.send(text, txn=txn)
        producer.flush()

    slow, gone, quick = (admin.transaction(timeout=600) for _ in range(3))
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
    [found] = following.fetch(wait=60).messages
    assert found.payload == b"slow"
    assert payloads(following) == []

    published = [b"before", b"quick 1", b"slow", b"quick 2", b"after"]
    for size in (1, 2, 3, 500):
        for filter_at in ("server", "client"):
            reader = admin.reader(topic, 0, filter_at=filter_at, max_messages=size)
            assert payloads(reader) == published
    following.next_offset = 0
    assert sorted(payloads(following)) == sorted(published)


@pytest.mark.parametrize("order", ["published", "committed"])
@pytest.mark.parametrize("grown", [0, 1, 4])
def test_a_reader_tells_that_the_log_was_truncated_below_it_and_goes_on_there(
    server: Served, admin: Client, order: Order, grown: int
) -> None:
    topic = server.topic()
    producer = admin.producer(topic)

    def send(*texts: bytes) -> None:
        for text in texts:
            producer.send(text)
        producer.flush()

    for text in (b"0", b"1", b"2", b"3"):
        send(text)  # a batch each: a log is cut between batches
    reader, behind = (admin.reader(topic, 0, order=order, max_messages=2) for _ in range(2))
    assert payloads(reader) == [b"0", b"1", b"2", b"3"]
    assert [message.payload for message in behind.fetch().messages] == [b"0", b"1"]
    cut(admin, topic, 2)
    new = [b"a", b"b", b"c", b"d"][:grown]
    if new:
        send(*new)
    with pytest.raises(LogTruncated, match="truncated to offset 2") as refused:
        reader.fetch()
    assert refused.value.data["truncated_to"] == reader.next_offset == 2
    cut(admin, topic, 1)  # Once more, before it has gone on.
    send(b"x")
    for one in (reader, behind):
        with pytest.raises(LogTruncated, match="truncated to offset 1"):
            one.fetch()
    assert payloads(reader) == payloads(behind) == [b"x"]


@pytest.mark.parametrize("order", ["published", "committed"])
def test_a_reader_that_is_to_begin_beyond_the_end_of_the_log_says_so(
    server: Served, admin: Client, order: Order
) -> None:
    topic = server.topic()
    with admin.producer(topic) as producer:
        producer.send(b"0")
    assert payloads(admin.reader(topic, 0, order=order, from_offset=1)) == []
    with pytest.raises(LogTruncated, match="ends at offset 1") as refused:
        payloads(reader := admin.reader(topic, 0, order=order, from_offset=2))
    assert refused.value.data["truncated_to"] == reader.next_offset == 1


@pytest.mark.parametrize("order", ["published", "committed"])
def test_a_loop_that_is_left_loses_nothing_of_what_was_fetched(
    server: Served, admin: Client, order: Order
) -> None:
    topic = topic_of_six(server, admin)
    reader = admin.reader(topic, 0, order=order, max_messages=4)
    assert next(iter(reader)).payload == b"0"
    assert [next(iter(reader)).payload, next(iter(reader)).payload] == [b"1", b"2"]
    if order == "published":
        assert reader.next_offset == 3
    assert [message.payload for message in reader.fetch().messages] == [b"3"]
    assert payloads(reader) == [b"4", b"5"]
    reader.next_offset = 0
    assert next(iter(reader)).payload == b"0"
    reader.next_offset = 4
    assert payloads(reader) == [b"4", b"5"]


@pytest.mark.parametrize("order", ["published", "committed"])
def test_a_program_that_keeps_its_place_goes_on_there_and_hears_of_a_truncation(
    server: Served, admin: Client, order: Order
) -> None:
    topic = server.topic()
    producer = admin.producer(topic)
    with admin.transaction() as txn:
        for number in range(5):
            producer.send(str(number).encode(), txn=txn)
            producer.flush(txn)
    txn.commit(wait=ENDED)
    for text in (b"5", b"6"):
        producer.send(text)
        producer.flush()
    kept, found = None, list[bytes]()
    while True:
        reader = admin.reader(topic, 0, order=order, max_messages=2, cursor=kept)
        messages = reader.fetch().messages
        found += [message.payload for message in messages]
        if not messages and reader.cursor == kept:
            break
        kept = reader.cursor
    assert found == [b"0", b"1", b"2", b"3", b"4", b"5", b"6"]
    cut(admin, topic, 7)  # "6" is cut off.
    for number in range(5):
        producer.send(f"new {number}".encode())
    producer.flush()
    reader = admin.reader(topic, 0, order=order, cursor=kept)
    with pytest.raises(LogTruncated, match="truncated to offset 7"):
        reader.fetch()
    [first, *_] = payloads(admin.reader(topic, 0, order=order, cursor=reader.cursor))
    assert first == b"new 0"


@pytest.mark.parametrize("order", ["published", "committed"])
def test_the_place_in_a_loop_leaves_nothing_out(
    server: Served, admin: Client, order: Order
) -> None:
    topic = topic_of_six(server, admin)
    reader = admin.reader(topic, 0, order=order, max_messages=2)
    assert reader.cursor is None

    def left() -> list[bytes]:
        return payloads(admin.reader(topic, 0, order=order, cursor=reader.cursor))

    again = [[b"0", b"1"], [], [b"2", b"3"], [], [b"4", b"5"], []]
    rest = [b"0", b"1", b"2", b"3", b"4", b"5"]
    for message, repeated in zip(reader, again, strict=True):
        rest.remove(message.payload)
        assert left() == (repeated + [each for each in rest if each not in repeated])
    reader.next_offset = 4
    assert reader.cursor is None


def test_a_reader_that_goes_on_at_the_end_waits_there(server: Served, admin: Client) -> None:
    topic = server.topic()
    with admin.producer(topic) as producer:
        producer.send(b"0")
    reader = admin.reader(topic, 0)
    assert payloads(reader) == [b"0"]
    later = admin.reader(topic, 0, cursor=reader.cursor)
    with ThreadPoolExecutor() as beside:
        waiting = beside.submit(later.fetch, wait=ENDED)
        with admin.producer(topic) as producer:
            producer.send(b"1")
        assert [message.payload for message in waiting.result().messages] == [b"1"]
    assert later.next_offset == 2
