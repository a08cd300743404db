"""What a subscription has in flight to consumers in one partition (semantics §6).

This is derived state. A crash loses it, and then what was in flight is delivered again. Everything
here is a pure function; engine.subscription stores the results. Times are milliseconds of the
database's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import msgspec

from engine.model.ranges import NOTHING, Ranges

#: Deliveries to one consumer within this fraction of the acknowledgement timeout are kept as one,
#: so that their number does not grow with the number of calls. No message becomes overdue early by
#: it.
_BUCKETS = 10
#: The count of what a transaction holds and no consumer has got: given back, it is as it was.
_NEVER_DELIVERED = -1


class InFlight(msgspec.Struct, frozen=True, array_like=True):
    """Messages in flight to one consumer until a deadline."""

    consumer: str
    deadline_ms: int
    ranges: Ranges


class Slot(msgspec.Struct, frozen=True, array_like=True):
    """A hash slot of a KEY_SHARED subscription: the offsets in it, as far as they are known and not
    deleted, and the consumer that got the last of them ("" when none did)."""

    consumer: str
    ranges: Ranges


class Dispatch(msgspec.Struct, frozen=True, array_like=True):
    """The dispatch state of a subscription in a partition.

    Attributes:
        read_offset: where to read on. Everything below is deleted, in flight, held by a
            transaction, on its way to the dead-letter topic, or in ``redeliver``.
        redeliver: what to deliver again.
        deliveries: what is in flight.
        counts: messages by how often they were given back after a delivery.
        epoch: of the active consumer's lease (EXCLUSIVE, FAILOVER).
        present: until when each consumer counts as present (KEY_SHARED).
        slots: the hash slots (KEY_SHARED).
    """

    read_offset: int
    redeliver: Ranges = Ranges()
    deliveries: tuple[InFlight, ...] = ()
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
        """When the next delivery is overdue; None when nothing is in flight."""
        return min((delivery.deadline_ms for delivery in self.deliveries), default=None)

    def in_flight(self, consumer: str | None = None) -> Ranges:
        """What is in flight to a consumer, by default to any."""
        if not self.deliveries:
            return NOTHING
        return Ranges.union(
            delivery.ranges
            for delivery in self.deliveries
            if consumer is None or delivery.consumer == consumer
        )

    def by_consumer(self) -> dict[str, Ranges]:
        """What is in flight by consumer, in the order of their names."""
        consumers = sorted({delivery.consumer for delivery in self.deliveries})
        return {consumer: self.in_flight(consumer) for consumer in consumers}

    def overdue(self, now_ms: float) -> Ranges:
        """What has not been acknowledged in time."""
        if not self.deliveries:
            return NOTHING
        return Ranges.union(
            delivery.ranges for delivery in self.deliveries if delivery.deadline_ms <= now_ms
        )

    def as_of(self, now_ms: float) -> Dispatch:
        """As the next receive finds it: what has not been acknowledged in time is given back."""
        return self.give_back(self.overdue(now_ms))

    def count(self, offset: int) -> int:
        """How often a message has been given back."""
        return next((times for times, ranges in self.counts.items() if offset in ranges), 0)

    def there(self, now_ms: int, lease_ms: int) -> dict[str, int]:
        """The consumers that are present (KEY_SHARED), each with the end of its lease. A lease that
        ends later than two lease times from now was given before the clock was set back. It counts
        as over, as an active consumer's does (functions/broker/has_lapsed.sql)."""
        until = now_ms + 2 * lease_ms
        return {who: end for who, end in self.present.items() if now_ms < end <= until}

    def spent(self, max_redeliveries: int | None) -> Ranges:
        """What is queued and has been given back more often than allowed; nothing for None."""
        if max_redeliveries is None:
            return NOTHING
        return self.redeliver & Ranges.union(
            ranges for times, ranges in self.counts.items() if times > max_redeliveries
        )

    def deliver(
        self, offsets: Ranges, consumer: str, *, now_ms: int, ack_timeout_ms: int
    ) -> Dispatch:
        """Put messages in flight to a consumer."""
        if not offsets:
            return self
        earliest = now_ms + ack_timeout_ms
        latest = earliest + max(1, ack_timeout_ms // _BUCKETS)
        kept: list[InFlight] = []
        joined: InFlight | None = None
        for delivery in self.deliveries:
            # A later one is of before the clock has gone back.
            fits = delivery.consumer == consumer and earliest < delivery.deadline_ms <= latest
            if joined is None and fits:
                joined = InFlight(consumer, delivery.deadline_ms, delivery.ranges | offsets)
            else:
                kept.append(delivery)
        if joined is None:
            joined = InFlight(consumer, latest, offsets)
        return msgspec.structs.replace(
            self, deliveries=(*kept, joined), redeliver=self.redeliver - offsets
        )

    def withdraw(self, offsets: Ranges) -> Dispatch:
        """Take messages out of flight without redelivery."""
        return msgspec.structs.replace(
            self,
            deliveries=_without(self.deliveries, offsets),
            redeliver=self.redeliver - offsets,
        )

    def hold(self, offsets: Ranges) -> Dispatch:
        """As :meth:`withdraw`, for a transaction that may give them back: that counts for those
        that have been delivered. All others are neither in flight nor counted."""
        fresh = offsets
        for delivered in chain((each.ranges for each in self.deliveries), self.counts.values()):
            if not fresh:
                break
            fresh -= delivered
        held = self.withdraw(offsets)
        if not fresh:
            return held
        fresh |= self.counts.get(_NEVER_DELIVERED, NOTHING)
        return msgspec.structs.replace(held, counts={**self.counts, _NEVER_DELIVERED: fresh})

    def restored(self, offsets: Ranges, before: Dispatch | None) -> Dispatch:
        """Undo a withdrawal as if it had not been: what was in flight ``before`` it is so again,
        until the same deadline; the rest is queued, and not counted. Without ``before``, or when
        another consumer is the active one by now, all of it is given back."""
        if before is None or before.epoch != self.epoch:
            return self.give_back(offsets)
        again = tuple(
            InFlight(delivery.consumer, delivery.deadline_ms, ranges)
            for delivery in before.deliveries
            if (ranges := delivery.ranges & offsets)
        )
        return msgspec.structs.replace(
            self,
            deliveries=(*self.deliveries, *again),
            redeliver=self.redeliver | (offsets - before.in_flight()),
            counts=_without_marks(self.counts, offsets),
        )

    def forget(self, offsets: Ranges) -> Dispatch:
        """Remove messages, because they have been deleted."""
        withdrawn = self.withdraw(offsets)
        if not self.counts:
            return withdrawn
        left = {times: ranges - offsets for times, ranges in self.counts.items()}
        counts = {times: ranges for times, ranges in left.items() if ranges}
        return msgspec.structs.replace(withdrawn, counts=counts)

    def give_back(self, offsets: Ranges) -> Dispatch:
        """Queue messages for redelivery, and count that they were given back."""
        return msgspec.structs.replace(
            self,
            deliveries=_without(self.deliveries, offsets),
            redeliver=self.redeliver | offsets,
            counts=_counted(self.counts, offsets),
        )


def _without(deliveries: tuple[InFlight, ...], offsets: Ranges) -> tuple[InFlight, ...]:
    if not offsets:
        return deliveries
    left = (
        InFlight(delivery.consumer, delivery.deadline_ms, delivery.ranges - offsets)
        for delivery in deliveries
    )
    return tuple(delivery for delivery in left if delivery.ranges)


def _without_marks(counts: Mapping[int, Ranges], offsets: Ranges) -> Mapping[int, Ranges]:
    """The counts of messages that are not held any more."""
    if _NEVER_DELIVERED not in counts:
        return counts
    left = {**counts, _NEVER_DELIVERED: counts[_NEVER_DELIVERED] - offsets}
    return {times: ranges for times, ranges in left.items() if ranges}


def _counted(before: Mapping[int, Ranges], offsets: Ranges) -> Mapping[int, Ranges]:
    if not offsets:
        return before
    counts = dict(_without_marks(before, offsets))
    seen = Ranges.union(before.values())
    for times in sorted(counts, reverse=True):
        moved = counts[times] & offsets
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
    """Read the stored form. When there is none (a new cursor, or after a crash), everything that is
    not deleted is due."""
    return Dispatch(mark_delete + 1) if stored is None else _decoder.decode(stored)
