from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.client.faults import TOPIC, FaultyLog, client
from txnconsole.client import (
    BatchLimits,
    InvalidTxnStatus,
    PartitionUnavailable,
    TransactionAborted,
    Unreachable,
)

FAULTS = st.lists(st.sampled_from([None, None, "refused", "lost answer", 503]), max_size=40)


@given(FAULTS, st.integers(1, 30), st.integers(1, 7))
def test_whatever_is_lost_every_message_is_stored_once_in_order(
    faults: list[str | int | None], count: int, batch: int
) -> None:
    network = FaultyLog(faults)
    server, _ = client(network, deadline=1000)
    with server.producer(TOPIC, limits=BatchLimits(messages=batch)) as producer:
        for number in range(count):
            producer.send(str(number).encode(), key="UA")
    assert [int(payload) for _, _, payload in network.messages] == list(range(count))


def test_an_undelivered_batch_goes_with_the_next_flush_and_is_stored_once() -> None:
    network = FaultyLog(["lost answer"])
    server, _ = client(network, deadline=0)
    producer = server.producer(TOPIC)
    producer.send(b"1", partition=0)
    with pytest.raises(Exception, match="got no answer"):
        producer.flush()
    answers = producer.flush()
    assert [answer.duplicate for answer in answers] == [True]
    assert [payload for _, _, payload in network.messages] == [b"1"]
    assert producer.flush() == []


def test_a_batch_that_the_programs_own_function_kept_from_being_sent_goes_with_the_next_flush() -> (
    None
):
    network = FaultyLog(["no token"])
    server, _ = client(network)
    producer = server.producer(TOPIC)
    producer.send(b"1", partition=0)
    with pytest.raises(LookupError):
        producer.flush()
    producer.flush()
    assert [payload for _, _, payload in network.messages] == [b"1"]


def test_a_batch_that_cannot_be_written_does_not_stand_in_the_way_of_the_next() -> None:
    network = FaultyLog()
    server, _ = client(network)
    producer = server.producer(TOPIC, name="p", first_sequence_id=2**64 - 1)
    producer.send(b"1", partition=0)
    producer.flush()
    producer.send(b"2", partition=0)
    with pytest.raises(OverflowError):
        producer.flush()
    assert producer.flush() == []


def test_an_abort_drops_its_own_messages_and_no_others_that_are_undelivered() -> None:
    network = FaultyLog(["refused"])
    server, _ = client(network, deadline=0)
    producer = server.producer(TOPIC)
    producer.send(b"plain", partition=0)
    with pytest.raises(Unreachable):
        producer.flush()
    txn = server.transaction()
    producer.send(b"gone", txn=txn)
    txn.abort()
    producer.flush()
    assert [payload for _, _, payload in network.messages] == [b"plain"]


@pytest.mark.parametrize("deadline", [0, 1000])
def test_a_topic_that_does_not_deduplicate_gets_a_batch_once(deadline: float) -> None:
    network = FaultyLog(["refused", "lost answer"], deduplication=False)
    server, _ = client(network, deadline=deadline)
    producer = server.producer(TOPIC)
    producer.send(b"1", partition=0)
    for _ in range(1 if deadline else 2):  # What was never sent is sent by the next flush.
        with pytest.raises(Unreachable):
            producer.flush()
    assert producer.flush() == []
    assert [payload for _, _, payload in network.messages] == [b"1"]


def test_a_refused_batch_does_not_stand_in_the_way_of_the_next() -> None:
    network = FaultyLog([409])
    server, _ = client(network)
    producer = server.producer(TOPIC)
    producer.send(b"refused", partition=0)
    with pytest.raises(InvalidTxnStatus):
        producer.flush()
    producer.send(b"next", partition=0)
    producer.flush()
    assert [payload for _, _, payload in network.messages] == [b"next"]


def test_the_same_batch_delivered_twice_is_a_duplicate() -> None:
    network = FaultyLog()
    server, _ = client(network)
    producer = server.producer(TOPIC)
    producer.send(b"1", partition=1)
    [batch] = producer.seal()
    assert [producer.deliver(batch).duplicate for _ in range(2)] == [False, True]
    assert producer.flush() == []
    assert len(network.messages) == 1


def test_a_name_that_may_be_known_needs_a_first_sequence_id_for_plain_sends() -> None:
    server, _ = client(FaultyLog())
    producer = server.producer(TOPIC, name="p1")
    with pytest.raises(ValueError, match="first_sequence_id"):
        producer.send(b"1")
    with server.transaction() as txn:
        producer.send(b"1", txn=txn)
    server.producer(TOPIC, name="p1", first_sequence_id=1).send(b"2")


def test_a_block_that_fails_sends_nothing_more() -> None:
    network = FaultyLog()
    server, _ = client(network)

    def fail() -> None:
        with server.producer(TOPIC) as producer:
            producer.send(b"1")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert network.messages == []


def test_flushing_everything_tells_the_transaction_of_a_failure() -> None:
    server, _ = client(FaultyLog([None, 503]), deadline=0)
    producer = server.producer(TOPIC)
    txn = server.transaction()
    producer.send(b"1", txn=txn)
    with pytest.raises(PartitionUnavailable):
        producer.flush()
    with pytest.raises(TransactionAborted):
        txn.commit()
