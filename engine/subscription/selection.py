"""Selection: which messages of one partition one receive call gets."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

import msgspec

from engine.log.entries import Entry, kind_of, messages_of
from engine.log.offloaded import OffloadedFiles
from engine.log.windows import Window
from engine.model.errors import SegmentUnreadable
from engine.model.message import EntryKind, StoredMessage
from engine.model.ranges import Ranges, Run
from engine.postgres.session import Session
from engine.subscription.memory import Unsure
from engine.subscription.state import State

#: How many windows of offsets one call reads. After a window without messages the next one is twice
#: as wide, so that a long stretch of aborted messages is passed however few messages are asked for;
#: but no wider than this, because a window is in memory as a whole.
_WINDOWS = 50
_WIDEST = 100_000
#: Entries looked at in one call, about: it is over in its time, and the next one goes on there.
_ENTRIES = 20_000
_last_offset = attrgetter("last_offset")


class Piece(msgspec.Struct, frozen=True):
    """The messages of an entry with offsets in [lower, upper)."""

    entry: Entry
    lower: int
    upper: int

    def messages(self, number: int, files: OffloadedFiles) -> list[StoredMessage]:
        """The messages themselves; ``number`` is the partition's.

        Raises:
            SegmentUnreadable: they have been offloaded to a file that is missing or damaged.
        """
        contents = self.entry.opened(files)
        return messages_of(self.entry, number, contents, within=(self.lower, self.upper))


class Room(msgspec.Struct, frozen=True):
    """What an answer has room for: messages, and bytes of opened batches, by the share that its
    messages have of them. ``is_empty``: there is nothing in it yet, so what comes first fits."""

    messages: int
    bytes: int
    is_empty: bool

    @property
    def is_full(self) -> bool:
        """Whether nothing fits any more."""
        return self.messages <= 0 or self.bytes <= 0


class Selection:
    """One receive call's look at one partition: it picks messages without opening their batches.

    Args:
        state: what is deleted, in flight, held.
        room: what the call's answer has room for.
        in_order: deliver in the order of offsets, redeliveries too, instead of these first.

    Attributes:
        skipped: runs of offsets that no reader ever gets: markers and aborted messages.
        read_offset: everything below it has been looked at.
    """

    def __init__(
        self,
        session: Session,
        state: State,
        files: OffloadedFiles,
        *,
        room: Room,
        in_order: bool = False,
    ) -> None:
        self._session = session
        self._files = files
        self._in_order = in_order
        self._state = state
        self._end = 0 if state.stable_position is None else state.stable_position + 1
        self._answer = room
        self._bytes_left = room.bytes
        self._is_empty = room.is_empty
        self._looked_at = 0
        self.room = room.messages
        self.pieces: list[Piece] = []
        self.skipped: list[Run] = []
        self.read_offset = state.dispatch.read_offset
        self._cut = False

    @property
    def left(self) -> Room:
        """What the answer has room for after this."""
        taken = sum(piece.upper - piece.lower for piece in self.pieces)
        return Room(self._answer.messages - taken, self._bytes_left, self._is_empty)

    @property
    def is_cut(self) -> bool:
        """Whether it has ended for all that it had looked at, before there was a message. All of
        that is settled, so another look gets further."""
        return self._cut and not self.pieces

    def collect(self) -> None:
        """Pick first what must be redelivered, then what comes next; with ``in_order`` by
        offset."""
        cursor, dispatch, busy = self._state.cursor, self._state.dispatch, self._state.busy
        again = cursor.undeleted(dispatch.redeliver) - busy
        start = max(dispatch.read_offset, cursor.mark_delete + 1)
        ahead = cursor.undeleted(Ranges.run(start, self._end)) - busy - again
        if self._in_order:
            ahead = ahead | again & Ranges.run(0, self._end)
        elif again:
            self.walk(again)
        unread = self.walk(ahead)
        # Everything below the first unread offset is delivered, deleted, busy or to be redelivered.
        self.read_offset = max(start, self._end if unread.first is None else unread.first)

    def walk(self, wanted: Ranges) -> Ranges:
        """Pick wanted messages window by window; answers the offsets that were not looked at."""
        width = self.room
        for _ in range(_WINDOWS):
            if wanted.first is None or self.room <= 0 or self._bytes_left <= 0:
                break
            if self._looked_at >= _ENTRIES:
                break
            before = self.room
            window = self._window(wanted.first, width)
            position = self.pick(window, wanted)
            self._looked_at += len(window.entries)
            if self.room == before:
                width = min(2 * width, _WIDEST)
            wanted = wanted - Ranges.run(0, position)
        if wanted and self.room > 0 and self._bytes_left > 0:
            self._cut = True
        return wanted

    def pick(self, window: Window, wanted: Ranges) -> int:
        """Pick from one window; answers the offset from which to read on.

        Raises:
            SegmentUnreadable: of the first message that there is to pick.
        """
        runs, at = wanted.runs, 0
        first = bisect_left(window.entries, runs[0][0], key=_last_offset)
        for entry in window.entries[first:]:
            lower, upper = entry.first_offset, entry.last_offset + 1
            while at < len(runs) and runs[at][1] <= lower:
                at += 1
            if at == len(runs) or runs[at][0] >= upper:
                continue
            if kind_of(entry) is not EntryKind.DATA or (
                entry.tc_id is not None and window.aborted.cover(entry)
            ):
                self.skipped.append((lower, upper))
                continue
            try:
                stop = self.take(entry, runs, at)
            except SegmentUnreadable:
                if not self.pieces:
                    raise
                # What comes before it is given; who asks again, and gets nothing else, is refused.
                self.room, stop = 0, max(lower, runs[at][0])
            if stop is not None:
                return stop
        return window.end

    def take(self, entry: Entry, runs: Sequence[Run], at: int) -> int | None:
        """Take those of an entry's messages that are in the wanted ``runs``, from the one at index
        ``at`` on; answers the first offset for which there was no room, else None.

        Raises:
            SegmentUnreadable: they have been offloaded to a file that is missing or damaged.
        """
        first, end = entry.first_offset, entry.last_offset + 1
        while at < len(runs) and runs[at][0] < end:
            # Not with max() and min(), which cost several times as much: most entries are small.
            lower = first if runs[at][0] <= first else runs[at][0]
            upper = end if end <= runs[at][1] else runs[at][1]
            if self.room <= 0 or self._bytes_left <= 0:
                return lower
            # Read now: when its file is missing, nothing must have been put in flight yet.
            self._files.body(entry)
            taken = upper if upper - lower <= self.room else lower + self.room
            if not self.fits(entry.size * (taken - lower) // (end - first)):
                return lower
            self.pieces.append(Piece(entry, lower, taken))
            self.room -= taken - lower
            if taken < upper:
                return taken
            at += 1
        return None

    def fits(self, size: int) -> bool:
        """Make room for so many bytes. Where there is not enough, the answer ends."""
        if size > self._bytes_left and not self._is_empty:
            self._bytes_left = 0
            return False
        self._bytes_left -= size
        self._is_empty = False
        return True

    def _window(self, lower: int, width: int) -> Window:
        known = self._state.window
        if known is not None and known.lower <= lower < known.end:
            return known
        if self._state.remembered:
            raise Unsure
        return Window.read(
            self._session,
            self._state.partition_id,
            lower,
            min(self._end, lower + width),
            buffer=self._state.buffer,
            max_bytes=self._bytes_left,
        )
