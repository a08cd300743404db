from __future__ import annotations

from threading import Barrier, Event

import msgspec
import pytest

from txnconsole.pipeline.delivery import Delivery
from txnconsole.pipeline.outgoing import Outgoing

_SECONDS = 30


def _batch(partition: int) -> Outgoing:
    return Outgoing(partition, msgspec.Raw(b"\x90"))


def test_batches_of_a_partition_are_sent_in_order_under_ascending_sequence_ids() -> None:
    sent: list[tuple[int, int]] = []
    delivery = Delivery(lambda batch, sequence: sent.append((batch.partition, sequence)))
    for number in range(30):
        delivery.take(_batch(number % 3))
    delivery.finish()
    for partition in range(3):
        own = [sequence for at, sequence in sent if at == partition]
        assert own == list(range(partition, 30, 3))


def test_batches_of_several_partitions_are_on_their_way_at_once() -> None:
    both = Barrier(2)
    delivery = Delivery(lambda _batch, _sequence: both.wait(_SECONDS))
    delivery.take(_batch(0))
    delivery.take(_batch(1))
    delivery.finish()


def test_what_was_refused_is_told_at_the_latest_by_the_end() -> None:
    def send(batch: Outgoing, sequence: int) -> None:
        raise PermissionError(f"{batch.partition}, {sequence}")

    delivery = Delivery(send)
    delivery.take(_batch(1))
    with pytest.raises(PermissionError, match="1, 0"):
        delivery.finish()


def test_no_more_is_taken_than_is_sent_and_a_close_leaves_the_rest() -> None:
    going, sent = Event(), list[int]()

    def send(_batch: Outgoing, sequence: int) -> None:
        going.wait(_SECONDS)
        sent.append(sequence)
        if sequence == 0:
            raise ConnectionError("gone")

    delivery = Delivery(send)
    delivery.take(_batch(0))
    delivery.take(_batch(0))
    going.set()
    with pytest.raises(ConnectionError):
        delivery.take(_batch(0))
    delivery.close()
    assert sent in ([0], [0, 1])
