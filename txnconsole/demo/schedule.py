"""Which flights are replayed in which transaction, and how each ends. Pure, so reproducible."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from txnconsole.client.partitioner import partition_for_key

PARTITIONS = 4
#: The producer of each partition: with one writer, a partition's order is its producer's.
PRODUCERS = ("demo-producer-a", "demo-producer-a", "demo-producer-b", "demo-producer-b")

#: Sizes are log-normal: half of the transactions have 8 flights or fewer, the mean is 16.
_MEDIAN_LOG, _SIGMA, _LARGEST = 2.0, 1.2, 400

_ABORTED, _HANGING, _HANGING_LONG, _DUPLICATED = 0.08, 0.003, 0.0005, 0.05
#: The one transaction of each pass that surely hangs long, early enough to be seen.
_FIRST_LONG_HANG = ("demo-producer-b", 6)


class Ending(StrEnum):
    """How an attempt ends: by its producer, or, when that leaves it, by its deadline."""

    COMMIT = "commit"
    ABORT = "abort"
    HANG = "hang"
    HANG_LONG = "hang long"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTransaction:
    """Flights, named by their positions in departure order, that are committed together.

    ``attempts`` are transactions of their own with the same flights, one after the other; only the
    last one commits. ``duplicated``: every batch and the commit are sent twice.
    """

    producer: str
    flights: tuple[int, ...]
    attempts: tuple[Ending, ...]
    duplicated: bool

    def after(self, position: int) -> PlannedTransaction:
        """The same transaction without the flights up to a position."""
        left = tuple(each for each in self.flights if each > position)
        return replace(self, flights=left)


@dataclass(slots=True)
class _Stream:
    """One producer's share of the flights, being cut into transactions."""

    producer: str
    random: random.Random
    flights: list[int] = field(default_factory=list)
    size: int = 0
    planned: int = 0

    def __post_init__(self) -> None:
        self.size = _size(self.random)

    def cut(self) -> PlannedTransaction:
        long_hang = (self.producer, self.planned) == _FIRST_LONG_HANG
        first = Ending.HANG_LONG if long_hang else _first_ending(self.random)
        planned = PlannedTransaction(
            producer=self.producer,
            flights=tuple(self.flights),
            attempts=(Ending.COMMIT,) if first is Ending.COMMIT else (first, Ending.COMMIT),
            duplicated=self.random.random() < _DUPLICATED,
        )
        self.flights = []
        self.size = _size(self.random)
        self.planned += 1
        return planned


def schedule(
    seed: int, carriers: Sequence[str], *, pass_number: int = 1
) -> Iterator[PlannedTransaction]:
    """Plan one pass over the flights whose carriers these are, in departure order.

    A producer has the flights whose carrier's partition it writes. Each of its transactions takes
    the next of them, so the transactions of a producer, in their order, hold its flights in
    departure order, each once. Transactions are yielded in the order of their last flights. The
    plan of the first n flights does not depend on what follows them, but for the unfinished
    transactions at the end.
    """
    streams = {
        producer: _Stream(producer, random.Random(f"{seed}/{pass_number}/{producer}"))  # noqa: S311
        for producer in dict.fromkeys(PRODUCERS)
    }
    for position, carrier in enumerate(carriers):
        stream = streams[producer_of(carrier)]
        stream.flights.append(position)
        if len(stream.flights) == stream.size:
            yield stream.cut()
    for stream in streams.values():
        if stream.flights:
            yield stream.cut()


def producer_of(carrier: str) -> str:
    """The producer that sends a carrier's flights."""
    return PRODUCERS[partition_for_key(carrier, PARTITIONS)]


def within(plan: Iterator[PlannedTransaction], limit: int | None) -> Iterator[PlannedTransaction]:
    """The transactions that hold the first ``limit`` flights, whole; all when it is None."""
    return (each for each in plan if limit is None or each.flights[0] < limit)


def _size(source: random.Random) -> int:
    return min(_LARGEST, 1 + int(source.lognormvariate(_MEDIAN_LOG, _SIGMA)))


def _first_ending(source: random.Random) -> Ending:
    drawn = source.random()
    for ending, share in (
        (Ending.ABORT, _ABORTED),
        (Ending.HANG, _HANGING),
        (Ending.HANG_LONG, _HANGING_LONG),
    ):
        if drawn < share:
            return ending
        drawn -= share
    return Ending.COMMIT
