"""What one partition gives to one receive call, under the cursor's lock."""

from __future__ import annotations

import msgspec

from engine.log.entries import AbortedSpans, entries_of, kind_of, messages_of
from engine.model.cursor import held
from engine.model.message import EntryKind, StoredMessage
from engine.model.ranges import Ranges
from engine.postgres.database import Row, Session
from engine.subscription.state import Dispatch, Locked

#: Windows of offsets read in one call. A window that gives nothing doubles the next, so that a long
#: stretch of aborted messages is passed whatever the number of messages asked for.
_WINDOWS = 50


class Reading:
    """One receive call's look at one partition.

    Args:
        buffer: the partition's, marker or sidecar.
        end: one past the last offset that readers may see.
        max_bytes: of payloads, about; one batch may go beyond.
    """

    def __init__(
        self, session: Session, locked: Locked, *, buffer: str, end: int, max_bytes: int
    ) -> None:
        self._session = session
        self._locked = locked
        self._end = end
        self._entries = entries_of(buffer)
        self._bytes_left = max_bytes
        self._busy = locked.in_flight() | held(locked.pending)
        self._messages: list[StoredMessage] = []
        self._skipped = Ranges()

    def collect(self, room: int) -> tuple[list[StoredMessage], Ranges, Dispatch]:
        """Up to ``room`` messages, what was skipped because no reader ever gets it (markers and
        aborted messages), and the dispatch state to go on with."""
        dispatch, cursor = self._locked.dispatch, self._locked.cursor
        redeliver = cursor.undeleted(dispatch.redeliver) - self._busy
        self._walk(redeliver, room)
        start = max(dispatch.read_offset, cursor.mark_delete + 1)
        ahead = cursor.undeleted(Ranges.of([(start, self._end)]))
        unread = self._walk(ahead - self._busy - dispatch.redeliver, room)
        delivered = Ranges.of_offsets(message.offset for message in self._messages)
        # All below the first unread offset is delivered, deleted, busy or to be redelivered.
        read_offset = max(start, self._end) if unread.first is None else unread.first
        rest = Dispatch(read_offset, redeliver - delivered - self._skipped)
        return self._messages, self._skipped, rest

    def _walk(self, wanted: Ranges, room: int) -> Ranges:
        """Collect wanted messages window by window; answers what was not looked at."""
        width = room
        for _ in range(_WINDOWS):
            if wanted.first is None or len(self._messages) >= room or self._bytes_left <= 0:
                break
            before = len(self._messages)
            upper = min(self._end, wanted.first + width)
            position = self._read(wanted.first, upper, wanted, room)
            if len(self._messages) == before:
                width *= 2
            wanted = wanted - Ranges.of([(0, position)])
        return wanted

    def _read(self, lower: int, upper: int, wanted: Ranges, room: int) -> int:
        """Collect from one window of offsets; answers the offset from which to read on."""
        span: dict[str, object] = {
            "partition_id": self._locked.place.partition_id,
            "from_offset": lower,
            "upper": upper,
        }
        entries, spans = self._session.batch(
            (self._entries, span | {"max_bytes": self._bytes_left}),
            ("aborted_overlapping", span),
        )
        aborted = AbortedSpans(spans)
        for entry in entries:
            if kind_of(entry) is not EntryKind.DATA or aborted.cover(entry):
                gone = Ranges.of([(entry.first_offset, entry.last_offset + 1)])
                self._skipped = self._skipped | gone
                continue
            position = self._take(entry, (lower, upper), wanted, room)
            if position is not None:
                return position
        # Fewer entries than the window has: they were cut by their bytes.
        return min(upper, entries[-1].last_offset + 1) if entries else upper

    def _take(self, entry: Row, within: tuple[int, int], wanted: Ranges, room: int) -> int | None:
        """Take an entry's wanted messages; answers where there was no room for one any more."""
        for message in messages_of(
            entry, self._locked.number, within=within, wanted=wanted.__contains__
        ):
            if len(self._messages) >= room:
                return message.offset
            self._bytes_left -= len(message.payload)
            count = self._count(message.offset)
            self._messages.append(
                msgspec.structs.replace(message, redelivery_count=count) if count else message
            )
        return None

    def _count(self, offset: int) -> int:
        counts = self._locked.redelivered.items()
        return next((times for times, ranges in counts if offset in ranges), 0)
