"""Positions of a read: the next offset to read, for each partition of each topic.

Spark keeps them as JSON in a query's checkpoint. There a partition is called by its number, or in
a read of several topics by ``tenant/namespace/topic:number``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from pyspark.sql.datasource import InputPartition

EARLIEST, LATEST = "earliest", "latest"
#: Keys of a stream's offsets that are no partitions: the subscription that they belong to, as
#: ``tenant/namespace/topic/name``, and which logs they are of (txnconsole.pipeline.same_log).
SUBSCRIPTION, MADE = "subscription", "made"
_PATTERN = frozenset("*?[")


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}"


#: Next offset by partition. A partition that is missing stands at the start of its log.
Offsets = Mapping[Place, int]


@dataclass(frozen=True)
class Position:
    """Where a log begins, and where it ends for a reader (exclusive); ``made_at`` tells it from
    another that had its name, ``ledger``, the newest of its ledgers, from what it was before a
    cut."""

    start: int
    end: int
    made_at: datetime | None = None
    ledger: int | None = None

    @property
    def made(self) -> int | None:
        """``made_at`` in milliseconds, as checkpoints note it."""
        return None if self.made_at is None else int(self.made_at.timestamp() * 1000)


@dataclass
class OffsetRange(InputPartition):
    """A half-open range of one partition's offsets."""

    place: Place
    lower: int
    upper: int


class PositionLost(Exception):
    """A partition ends before a position that was read, or is not the one that was read."""


def is_pattern(topic: str) -> bool:
    """Whether an option names topics by a pattern (``*``, ``?``, ``[…]``)."""
    return not _PATTERN.isdisjoint(topic)


def parse_offsets(option: str, topic: str, positions: Mapping[Place, Position]) -> dict[Place, int]:
    """Resolve ``startingOffsets`` or ``endingOffsets``.

    Args:
        option: ``earliest``, ``latest``, or JSON such as ``{"0": 120, "1": 0}``; partitions that
            the JSON leaves out are read from (or to) their ends.
        topic: the topic or pattern that is read.
        positions: where each partition stands now.

    Raises:
        ValueError: the option has another form, or names a partition that is not there.
    """
    end = {place: position.end for place, position in positions.items()}
    if option.lower() == EARLIEST:
        return {place: position.start for place, position in positions.items()}
    if option.lower() == LATEST:
        return end
    try:
        given = from_json(json.loads(option), topic)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f"Offsets are earliest, latest or JSON like {_example(topic)}, not {option[:80]!r}."
        ) from error
    if unknown := sorted(str(place) for place in given.keys() - end.keys()):
        raise ValueError(f"There are no partitions {', '.join(unknown)}.")
    if any(offset < 0 for offset in given.values()):
        raise ValueError("Offsets start at 0.")
    return end | given


def _example(topic: str) -> str:
    return '{"public/default/flights:0": 120}' if is_pattern(topic) else '{"0": 120}'


def from_json(offsets: Mapping[str, int], topic: str) -> dict[Place, int]:
    """Read offsets of a topic, or of several.

    Raises:
        ValueError: a key names no partition, or an offset is no whole number.
    """
    for key, offset in offsets.items():
        if type(offset) is not int:  # JSON's true is an int to isinstance.
            raise ValueError(f"{key[:80]!r} stands at {offset!r}, which is no offset.")
    return {_place(key, topic): offset for key, offset in offsets.items()}


def noted_offsets(noted: Mapping[str, Any], topic: str) -> dict[Place, int]:
    """The offsets of a checkpoint, without what else stands there.

    Raises:
        ValueError: as :func:`from_json` does.
    """
    offsets = {key: at for key, at in noted.items() if key not in (SUBSCRIPTION, MADE)}
    return from_json(offsets, topic)


def _place(key: str, topic: str) -> Place:
    name, _, number = key.rpartition(":")
    if bool(name) != is_pattern(topic):
        raise ValueError(f"{key[:80]!r} does not name a partition as {topic} has them.")
    return Place(name or topic, int(number))


def to_json(offsets: Offsets, topic: str) -> dict[str, int]:
    """What :func:`from_json` reads."""
    return {key_of(place, topic): offset for place, offset in sorted(offsets.items())}


def key_of(place: Place, topic: str) -> str:
    """A partition's name in JSON."""
    return str(place) if is_pattern(topic) else str(place.partition)


def advance(start: Offsets, end: Offsets, limit: int | None) -> dict[Place, int]:
    """The positions after at most ``limit`` offsets from ``start`` on, never past ``end``.

    The limit is shared out so that no partition gets more than another as long as both have
    something to read.

    Raises:
        PositionLost: a start is past its end, which a stable position never moves back to.
    """
    reached = {place: start.get(place, 0) for place in end}
    backlog = {place: end[place] - reached[place] for place in end}
    if lost := [place for place in end if backlog[place] < 0]:
        told = ", ".join(f"{place} ends at {end[place]}" for place in lost[:5])
        raise PositionLost(f"{told}; the query has read further ({to_json_text(start, lost)}).")
    left = sum(backlog.values()) if limit is None else limit
    waiting = sorted(end, key=lambda place: (backlog[place], place))
    for index, place in enumerate(waiting):
        taken = min(backlog[place], left // (len(waiting) - index))
        reached[place] += taken
        left -= taken
    return {**start, **reached}


def to_json_text(offsets: Offsets, places: list[Place]) -> str:
    """Offsets of some places, for people."""
    return ", ".join(f"{place}: {offsets[place]}" for place in places[:5])


def between(start: Offsets, end: Offsets) -> list[OffsetRange]:
    """What lies between two positions, one range for each partition that has something."""
    return [
        OffsetRange(place, start.get(place, 0), upper)
        for place, upper in sorted(end.items())
        if start.get(place, 0) < upper
    ]
