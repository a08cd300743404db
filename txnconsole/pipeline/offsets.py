"""Positions of a read: the next offset to read, for each partition of a topic.

Spark keeps them as JSON in a query's checkpoint, which is why the partitions are strings there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

#: Next offset by partition number. A partition that is missing stands at 0.
Offsets = dict[int, int]

EARLIEST, LATEST = "earliest", "latest"


@dataclass
class OffsetRange(InputPartition):
    """The half-open range of one partition's offsets that one task reads."""

    partition: int
    lower: int
    upper: int


def parse_offsets(option: str, end: Offsets) -> Offsets:
    """Resolve ``startingOffsets`` or ``endingOffsets``.

    Args:
        option: ``earliest``, ``latest``, or JSON such as ``{"0": 120, "1": 0}``; partitions that
            the JSON leaves out are read from (or to) their ends.
        end: where each partition ends now.

    Raises:
        ValueError: the option has another form, or names a partition that the topic has not.
    """
    if option.lower() == EARLIEST:
        return dict.fromkeys(end, 0)
    if option.lower() == LATEST:
        return dict(end)
    try:
        given = from_json(json.loads(option))
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f'Offsets are earliest, latest or JSON like {{"0": 120}}, not {option[:80]!r}.'
        ) from error
    if unknown := sorted(given.keys() - end.keys()):
        raise ValueError(f"The topic has no partitions {unknown}.")
    if any(offset < 0 for offset in given.values()):
        raise ValueError("Offsets start at 0.")
    return end | given


def from_json(offsets: dict[str, int]) -> Offsets:
    return {int(partition): int(offset) for partition, offset in offsets.items()}


def to_json(offsets: Offsets) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


class PositionLost(Exception):
    """A partition ends before a position that was read: it was truncated, or is another one."""


def advance(start: Offsets, end: Offsets, limit: int | None) -> Offsets:
    """The positions after at most ``limit`` offsets from ``start`` on, never past ``end``.

    The limit is shared out so that no partition gets more than another as long as both have
    something to read.

    Raises:
        PositionLost: a start is past its end, which a stable position never moves back to.
    """
    reached = {partition: start.get(partition, 0) for partition in end}
    backlog = {partition: end[partition] - reached[partition] for partition in end}
    if lost := {number: start[number] for number in end if backlog[number] < 0}:
        raise PositionLost(f"The topic ends at {end}; the query has read to {lost}.")
    left = sum(backlog.values()) if limit is None else limit
    waiting = sorted(end, key=lambda partition: (backlog[partition], partition))
    for index, partition in enumerate(waiting):
        taken = min(backlog[partition], left // (len(waiting) - index))
        reached[partition] += taken
        left -= taken
    return start | reached


def split(start: Offsets, end: Offsets, size: int) -> list[OffsetRange]:
    """The ranges between two positions, none of more than ``size`` offsets."""
    return [
        OffsetRange(partition, lower, min(lower + size, upper))
        for partition, upper in sorted(end.items())
        for lower in range(start.get(partition, 0), upper, size)
    ]
