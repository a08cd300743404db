"""Whether a stream's offsets still belong to the logs that the stream has read.

An offset alone does not identify a message. When a topic was deleted and created again, other
messages are at the same offsets; so they are when the end of a log was cut and it has grown again.
Therefore a checkpoint has, beside its offsets, when each partition was made and which ledger was
its newest: ``{"by": whose clock, "at": {partition: ms}, "ledgers": {partition: id}}``. A
partition's ledgers are opened in the order of their ids, each where the log ends. So when a ledger
that was opened since begins below an offset that had been read by then, the log was cut.

It also has how many brokers were read (``"brokers"``): when fewer are given later, the topics of
those that are missing would be taken for deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txnconsole.pipeline.access import Access
from txnconsole.pipeline.offsets import (
    MADE,
    Offsets,
    Place,
    Position,
    PositionLost,
    from_json,
    key_of,
    noted_offsets,
    to_json,
)

_BY, _AT, _LEDGERS, _BROKERS = "by", "at", "ledgers", "brokers"


def note(
    access: Access,
    topic: str,
    offsets: Offsets,
    positions: Mapping[Place, Position],
    before: Mapping[str, Any],
) -> dict[str, Any]:
    """What a checkpoint has to say of the logs that its offsets are of; empty when it is unknown.

    Args:
        before: what the checkpoint says now. For a topic that does not exist now this is kept,
            since its offsets are kept too.
    """
    away = {key_of(place, topic) for place in offsets.keys() - positions.keys()}
    said = before.get(MADE, {})
    made = {place: at.made for place, at in positions.items() if at.made is not None}
    open_now = {place: at.ledger for place, at in positions.items() if at.ledger is not None}
    same_clock = said.get(_BY) == access.made_by
    at = _kept(said.get(_AT, {}) if same_clock else {}, away) | to_json(made, topic)
    newest = _kept(said.get(_LEDGERS, {}), away) | to_json(open_now, topic)
    logs: dict[str, Any] = {_BY: access.made_by, _AT: at} if at else {}
    if newest:
        logs[_LEDGERS] = newest
    if access.brokers:
        logs[_BROKERS] = access.brokers
    return {MADE: logs} if logs else {}


def require_same(
    access: Access,
    topic: str,
    noted: Mapping[str, Any],
    positions: Mapping[Place, Position],
    *,
    instead: str = "Start with a new checkpoint, and a new sink",
) -> None:
    """Refuse to go on in a log that is not the one that was read, or that was cut.

    Args:
        noted: what the checkpoint says.
        instead: the advice for the user in the error's text.

    Raises:
        PositionLost: a topic was deleted and created again under its name, its end was cut
            below what was read of it, it lacks a partition that was read, or fewer brokers are
            given than were.
    """
    said = noted.get(MADE, {})
    if 0 < access.brokers < (known := said.get(_BROKERS, 0)):
        raise PositionLost(
            f"The query has read from {known} brokers, and {access.brokers} are given now: name all"
            " of BROKER_DATABASE_URLS."
        )
    same_clock = said.get(_BY) == access.made_by
    made = said.get(_AT, {}) if same_clock else {}
    if anew := [
        str(place)
        for place, position in sorted(positions.items())
        if made.get(key_of(place, topic), position.made) != position.made
    ]:
        raise PositionLost(
            f"{', '.join(anew[:5])}: made anew since the query has read it; its offsets say"
            f" nothing about this log. {instead}."
        )
    if gone := _gone(topic, noted, positions):
        told = ", ".join(str(place) for place in gone[:5])
        raise PositionLost(
            f"{told}: not there any more, though the query has read it. With brokers given, name"
            " all of BROKER_DATABASE_URLS."
        )
    if cut := _cut(access, topic, noted, positions):
        told = ", ".join(f"{place} at {offset}" for place, offset in cut[:5])
        happened = "Cut below what the query has read" + ("" if same_clock else ", or made anew")
        raise PositionLost(
            f"{happened}: {told}. Other messages stand there now. {instead}, from where it was cut."
        )


def ledgers(noted: Mapping[str, Any], topic: str) -> dict[Place, int]:
    """The newest ledger of each partition, of those that a checkpoint knows."""
    return from_json(noted.get(MADE, {}).get(_LEDGERS, {}), topic)


def _gone(topic: str, noted: Mapping[str, Any], positions: Mapping[Place, Position]) -> list[Place]:
    """The partitions that were read and are missing now, of topics that exist."""
    topics = {place.topic for place in positions}
    read = noted_offsets(noted, topic)
    return [place for place in sorted(read.keys() - positions.keys()) if place.topic in topics]


def _cut(
    access: Access, topic: str, noted: Mapping[str, Any], positions: Mapping[Place, Position]
) -> list[tuple[Place, int]]:
    """The partitions that lost messages that had been read, each with the offset of the cut."""
    before = ledgers(noted, topic)
    read = noted_offsets(noted, topic)
    grown: dict[Place, int] = {}
    for place, position in sorted(positions.items()):
        known = before.get(place)
        if place in read and known is not None and position.ledger not in (known, None):
            grown[place] = known
    if not grown:
        return []
    return [(place, at) for place, at in access.opened_at(grown).items() if at < read[place]]


def _kept(said: Mapping[str, int], keys: set[str]) -> dict[str, int]:
    return {key: value for key, value in said.items() if key in keys}
