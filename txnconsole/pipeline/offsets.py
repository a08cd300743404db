"""Positions of a read: the next offset to read, for each partition of each topic.

Spark keeps them as JSON in a query's checkpoint. The key of a partition there is its number, or in
a read of several topics ``tenant/namespace/topic:number``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from pyspark.sql.datasource import InputPartition

EARLIEST, LATEST = "earliest", "latest"
#: The keys of that JSON that are not partitions: the subscription that the offsets belong to, as
#: ``tenant/namespace/topic/name``, and which logs they are of (``same_log``).
SUBSCRIPTION, MADE = "subscription", "made"
_PATTERN = frozenset("*?[")
#: A partition's, written in one way only: "00" would be "0" again.
_NUMBER = re.compile(r"0|[1-9]\d*", re.ASCII)


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}"


#: The next offset to read by partition. A partition that is missing is read from its start.
Offsets = Mapping[Place, int]


@dataclass(frozen=True)
class Position:
    """Where a log starts, and where it ends for a reader (exclusive).

    ``made_at`` distinguishes it from an earlier log of the same name; ``ledger``, the id of its
    newest ledger, from the same log before its end was cut.
    """

    start: int
    end: int
    made_at: datetime | None = None
    ledger: int | None = None

    @property
    def made(self) -> int | None:
        """``made_at`` in milliseconds since 1970, as checkpoints have it."""
        return None if self.made_at is None else int(self.made_at.timestamp() * 1000)


@dataclass
class OffsetRange(InputPartition):
    """A half-open range of one partition's offsets.

    ``ledger`` was the newest of the log when the range was planned, if that is known. A ledger that
    was opened since begins above the range, unless the log was cut.
    """

    place: Place
    lower: int
    upper: int
    ledger: int | None = None

    def require_uncut(self, opened_at: int | None) -> None:
        """Refuse what is not what was planned.

        Args:
            opened_at: where the first ledger begins that was opened since; None: there is none.

        Raises:
            PositionLost: below the range's end.
        """
        if opened_at is not None and opened_at < self.upper:
            raise PositionLost(
                f"{self.place}: cut at {opened_at}, or made anew, since this read was planned;"
                " other messages may stand there now."
            )


class PositionLost(Exception):
    """A partition ends below the position of a read, or it is not the log that was read."""


def is_pattern(topic: str) -> bool:
    """Whether an option names topics by a pattern (``*``, ``?``, ``[…]``)."""
    return not _PATTERN.isdisjoint(topic)


def parse_offsets(
    option: str, text: str, topic: str, positions: Mapping[Place, Position]
) -> dict[Place, int]:
    """Resolve an option such as ``startingOffsets``.

    Args:
        option: its name, for errors.
        text: ``earliest``, ``latest``, or JSON such as ``{"0": 120, "1": 0}``; partitions that
            the JSON leaves out start (or end) at their present end.
        topic: the topic or pattern that is read.
        positions: where each partition stands now.

    Raises:
        ValueError: the option has another form, or names a partition that does not exist.
    """
    end = {place: position.end for place, position in positions.items()}
    if text.lower() == EARLIEST:
        return {place: position.start for place, position in positions.items()}
    if text.lower() == LATEST:
        return end
    try:
        given = from_json(json.loads(text, object_pairs_hook=_once), topic)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{option} is earliest, latest or JSON like {_example(topic)}, not {text[:80]!r}."
        ) from error
    if unknown := sorted(str(place) for place in given.keys() - end.keys()):
        raise ValueError(f"{option} names no partitions of the topic: {', '.join(unknown)}.")
    if any(offset < 0 for offset in given.values()):
        raise ValueError(f"{option} has offsets below 0.")
    return end | given


def require_ordered(starting: str, start: Offsets, end: Offsets) -> None:
    """Refuse a range that ends before it starts: it would read nothing and not say so. A read from
    the start of a log that retention has taken beyond the range's end is empty, and right.

    Args:
        starting: the option that ``start`` was resolved from.

    Raises:
        ValueError: it does; the error names the partitions.
    """
    backwards = [place for place in start if start[place] > end[place]]
    if backwards and starting.lower() != EARLIEST:
        told = ", ".join(f"{each} from {start[each]} to {end[each]}" for each in backwards[:5])
        raise ValueError(
            f"The range ends before it starts: {told}. Partitions that an option leaves out stand"
            " at their end."
        )


def _example(topic: str) -> str:
    return '{"public/default/flights:0": 120}' if is_pattern(topic) else '{"0": 120}'


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Of a key that it has twice Python would take the last, and tell nobody."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("A key stands there twice.")
    return found


def from_json(offsets: Mapping[str, int], topic: str) -> dict[Place, int]:
    """Read the JSON offsets of a topic, or of several.

    Raises:
        ValueError: a key does not name a partition, or an offset is not a whole number.
    """
    for key, offset in offsets.items():
        if type(offset) is not int:  # JSON's true is an int to isinstance.
            raise ValueError(f"{key[:80]!r} stands at {offset!r}, which is no offset.")
    return {_place(key, topic): offset for key, offset in offsets.items()}


def noted_offsets(noted: Mapping[str, Any], topic: str) -> dict[Place, int]:
    """The offsets of a checkpoint, without its other keys.

    Raises:
        ValueError: as :func:`from_json` does; or it is no JSON object, as other sources have.
    """
    if not isinstance(noted, dict) or not isinstance(noted.get(MADE, {}), dict):
        raise ValueError(f"{str(noted)[:80]} has no offsets by partition.")
    offsets = {key: at for key, at in noted.items() if key not in (SUBSCRIPTION, MADE)}
    return from_json(offsets, topic)


def _place(key: str, topic: str) -> Place:
    name, _, number = key.rpartition(":")
    if bool(name) != is_pattern(topic) or not _NUMBER.fullmatch(number):
        raise ValueError(f"{key[:80]!r} does not name a partition as {topic} has them.")
    return Place(name or topic, int(number))


def to_json(offsets: Offsets, topic: str) -> dict[str, int]:
    """Offsets as JSON; :func:`from_json` reads it."""
    return {key_of(place, topic): offset for place, offset in sorted(offsets.items())}


def key_of(place: Place, topic: str) -> str:
    """A partition's key in JSON."""
    return str(place) if is_pattern(topic) else str(place.partition)


def advance(start: Offsets, end: Offsets, limit: int | None) -> dict[Place, int]:
    """The positions after reading at most ``limit`` offsets from ``start`` on, never past ``end``.

    The limit is divided equally among the partitions that have something to read; what one does not
    need goes to the others.

    Raises:
        PositionLost: a start is past its end. Ends never move back, so the log has lost messages.
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
    """The offsets of some partitions, as text for people."""
    return ", ".join(f"{place}: {offsets[place]}" for place in places[:5])


def between(
    start: Offsets, end: Offsets, ledgers: Mapping[Place, int | None] | None = None
) -> list[OffsetRange]:
    """What lies between two positions, one range for each partition that has something; ``ledgers``
    are the newest where they are known."""
    return [
        OffsetRange(place, start.get(place, 0), upper, (ledgers or {}).get(place))
        for place, upper in sorted(end.items())
        if start.get(place, 0) < upper
    ]
