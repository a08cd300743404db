"""Committed order: what a reader gets of the entries that ``broker.committed_order`` answers.

Invariants
    A reader that passes each cursor on gets every committed message exactly once. This holds
    because offsets become visible in order: appends and markers hold the head's lock until they are
    durable, so what a snapshot does not show below its end will never appear there.
    A transaction's messages come together, by offset, with nothing in between. An answer ends
    inside a transaction only when it holds nothing but messages of that transaction. So a reader
    that goes on by ``next_offset`` alone also gets every transaction exactly once, if it is no
    larger than an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from engine.log.entries import Opening, messages_of
from engine.model.message import MAX_OFFSET, StoredMessage
from engine.model.read_position import ReadPosition
from engine.postgres.session import Row


def in_committed_order(
    rows: Sequence[Row],
    number: int,
    opening: Opening,
    start: ReadPosition,
    max_messages: int,
) -> tuple[tuple[StoredMessage, ...], ReadPosition]:
    """At most ``max_messages`` messages, and where the next fetch goes on: before what does not fit
    any more or cannot be read back, if anything comes before it.

    Raises:
        SegmentUnreadable: the first of them cannot be read back.
    """
    *entries, end = rows
    messages: list[StoredMessage] = []
    at, before = start.offset, 0
    for entry in entries:
        if entry.readable_at != at:
            at, before = entry.readable_at, len(messages)
        lower = start.offset
        if entry.tc_id is not None:
            lower = (start.within or 0) if at == start.offset else 0
        room = max_messages - len(messages)
        contents = opening.contents(entry, is_first=not messages)
        if contents is None:
            rest: int | None = entry.first_offset
        else:
            found = readable(
                messages_of(entry, number, contents, within=(lower, MAX_OFFSET)),
                at=None if entry.tc_id is None else at,
            )
            rest = found[room].offset if len(found) > room else None
            messages += found[:room]
        if rest is not None:
            if entry.tc_id is None:
                return tuple(messages), ReadPosition(offset=rest)
            return _cut(messages, before, ReadPosition(offset=at, within=rest))
    return _cut(messages, before, ReadPosition(offset=end.readable_at, within=end.first_offset))


def _cut(
    messages: list[StoredMessage], before: int, end: ReadPosition
) -> tuple[tuple[StoredMessage, ...], ReadPosition]:
    """Leave out a last transaction of which only a part would fit, unless it is the only one:
    ``before`` is the number of messages before it."""
    if end.within is None or not before:
        return tuple(messages), end
    return tuple(messages[:before]), ReadPosition(offset=end.offset)


def readable(messages: Iterable[StoredMessage], *, at: int | None) -> list[StoredMessage]:
    """The messages with the offset at which they became readable: ``at``, the offset of a commit
    marker, or with None each message's own."""
    return [
        msgspec.structs.replace(each, readable_at=each.offset if at is None else at)
        for each in messages
    ]
