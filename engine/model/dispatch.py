"""What a subscription has on its way to consumers in one partition (semantics §6).

Derived state: lost in a crash, and then what was in flight is delivered again. Pure functions;
engine.subscription stores the results. Times are milliseconds of the database's clock.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from engine.model.ranges import Ranges

#: Deliveries to one consumer within this share of the acknowledgement timeout are kept as one, so
#: that their number does not grow with that of the calls. None is overdue early.
_BUCKETS = 10


class Delivery(msgspec.Struct, frozen=True, array_like=True):
    """Messages in flight to one consumer until a deadline."""

    consumer: str
    deadline_ms: int
    ranges: Ranges


class Slot(msgspec.Struct, frozen=True, array_like=True):
    """A hash slot of a KEY_SHARED subscription: the offsets known to be in it that are not yet
    deleted, and the consumer that had the last of them ("" when none had)."""

    consumer: str
    ranges: Ranges


class Dispatch(msgspec.Struct, frozen=True, array_like=True):
    """From where to read on, what to deliver again first, and who has what.

    Everything below ``read_offset`` is deleted, in flight, held by a transaction, on its way to the
    dead-letter topic, or in ``redeliver``. ``counts``: messages by how often they were given back.
    ``epoch``: of the active consumer's lease (EXCLUSIVE, FAILOVER). ``present``: until when each
    consumer of a KEY_SHARED subscription is taken to be there.
    """

    read_offset: int
    redeliver: Ranges = Ranges()
    deliveries: tuple[Delivery, ...] = ()
    counts: Mapping[int, Ranges] = {}
    epoch: int = 0
    present: Mapping[str, int] = {}
    slots: Mapping[int, Slot] = {}

    @property
    def due_offset(self) -> int:
        """The first offset that may have to be delivered."""
        first = self.redeliver.first
        return self.read_offset if first is None else min(first, self.read_offset)

    @property
    def next_deadline_ms(self) -> int | None:
        return min((delivery.deadline_ms for delivery in self.deliveries), default=None)

    def in_flight(self, consumer: str | None = None) -> Ranges:
        """What is on its way to a consumer, or to any."""
        return Ranges.union(
            delivery.ranges
            for delivery in self.deliveries
            if consumer is None or delivery.consumer == consumer
        )

    def by_consumer(self) -> dict[str, Ranges]:
        """What is on its way, by consumer in the order of their names."""
        consumers = sorted({delivery.consumer for delivery in self.deliveries})
        return {consumer: self.in_flight(consumer) for consumer in consumers}

    def overdue(self, now_ms: int) -> Ranges:
        """What has not been acknowledged in time."""
        return Ranges.union(
            delivery.ranges for delivery in self.deliveries if delivery.deadline_ms <= now_ms
        )

    def count(self, offset: int) -> int:
        """How often a message has been given back."""
        return next((times for times, ranges in self.counts.items() if offset in ranges), 0)

    def deliver(
        self, offsets: Ranges, consumer: str, *, now_ms: int, ack_timeout_ms: int
    ) -> Dispatch:
        """Put messages on their way to a consumer."""
        if not offsets:
            return self
        earliest = now_ms + ack_timeout_ms
        kept: list[Delivery] = []
        joined: Delivery | None = None
        for delivery in self.deliveries:
            if joined is None and delivery.consumer == consumer and delivery.deadline_ms > earliest:
                joined = Delivery(consumer, delivery.deadline_ms, delivery.ranges | offsets)
            else:
                kept.append(delivery)
        if joined is None:
            joined = Delivery(consumer, earliest + max(1, ack_timeout_ms // _BUCKETS), offsets)
        return msgspec.structs.replace(
            self, deliveries=(*kept, joined), redeliver=self.redeliver - offsets
        )

    def withdraw(self, offsets: Ranges) -> Dispatch:
        """Take messages out of flight: a transaction holds them, or the dead-letter topic gets
        them."""
        return msgspec.structs.replace(
            self,
            deliveries=_without(self.deliveries, offsets),
            redeliver=self.redeliver - offsets,
        )

    def forget(self, offsets: Ranges) -> Dispatch:
        """Messages are deleted."""
        withdrawn = self.withdraw(offsets)
        if not self.counts:
            return withdrawn
        left = {times: ranges - offsets for times, ranges in self.counts.items()}
        counts = {times: ranges for times, ranges in left.items() if ranges}
        return msgspec.structs.replace(withdrawn, counts=counts)

    def give_back(self, offsets: Ranges) -> Dispatch:
        """Queue messages for redelivery, counting it."""
        return msgspec.structs.replace(
            self,
            deliveries=_without(self.deliveries, offsets),
            redeliver=self.redeliver | offsets,
            counts=_counted(self.counts, offsets),
        )


def _without(deliveries: tuple[Delivery, ...], offsets: Ranges) -> tuple[Delivery, ...]:
    if not offsets:
        return deliveries
    left = (
        Delivery(delivery.consumer, delivery.deadline_ms, delivery.ranges - offsets)
        for delivery in deliveries
    )
    return tuple(delivery for delivery in left if delivery.ranges)


def _counted(before: Mapping[int, Ranges], offsets: Ranges) -> Mapping[int, Ranges]:
    if not offsets:
        return before
    counts = dict(before)
    seen = Ranges.union(before.values())
    for times in sorted(before, reverse=True):
        moved = before[times] & offsets
        if moved:
            counts[times] = counts[times] - moved
            counts[times + 1] = counts.get(times + 1, Ranges()) | moved
    counts[1] = counts.get(1, Ranges()) | (offsets - seen)
    return {times: ranges for times, ranges in counts.items() if ranges}


_decoder = msgspec.msgpack.Decoder(Dispatch)
_encoder = msgspec.msgpack.Encoder()


def encode(dispatch: Dispatch) -> bytes:
    """The stored form."""
    return _encoder.encode(dispatch)


def decode(stored: bytes | None, mark_delete: int) -> Dispatch:
    """Read the stored form. Without any (a new cursor, or after a crash) all that is undeleted is
    due."""
    return Dispatch(mark_delete + 1) if stored is None else _decoder.decode(stored)
