"""Which messages of one partition a consumer of a KEY_SHARED subscription gets.

Messages whose keys belong to other consumers are passed over and queued (``Dispatch.redeliver``),
together with their slots, so that no message has to be opened twice to learn its key. At most
``LOOKAHEAD`` of them are queued.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from engine.log.entries import Entry
from engine.log.offloaded import OffloadedFiles
from engine.model.batch import CorruptBatch
from engine.model.dispatch import Slot
from engine.model.key_shared import LOOKAHEAD, assignment, owner, slot_of
from engine.model.ranges import Ranges, Run
from engine.postgres.session import Session
from engine.subscription.selection import Piece, Room, Selection
from engine.subscription.state import State


class KeySelection(Selection):
    """As :class:`Selection`, for one consumer among those that are there.

    Attributes:
        queued: the offsets that this call has passed over, for other consumers.
    """

    def __init__(
        self,
        session: Session,
        state: State,
        files: OffloadedFiles,
        *,
        room: Room,
        consumer: str,
    ) -> None:
        super().__init__(session, state, files, room=room)
        dispatch = state.dispatch
        self._consumer = consumer
        self._busy = state.busy
        #: What is on its way to the dead-letter topic is in flight to nobody.
        self._outstanding = self._busy - state.dead if state.dead else self._busy
        self._assigned = assignment(frozenset(dispatch.present) | {consumer})
        undeleted = {
            number: Slot(slot.consumer, state.cursor.undeleted(slot.ranges))
            for number, slot in dispatch.slots.items()
        }
        self._slots = {number: slot for number, slot in undeleted.items() if slot.ranges}
        self._mine: dict[int, bool] = {}
        self._seen: dict[int, list[int]] = defaultdict(list)
        self._taken: set[int] = set()
        self.queued: list[int] = []

    def collect(self) -> None:
        """Pick first what is queued for this consumer, then what nobody has looked at yet."""
        cursor, dispatch = self._state.cursor, self._state.dispatch
        due = cursor.undeleted(dispatch.redeliver) - self._busy
        known = Ranges.union(slot.ranges for slot in self._slots.values())
        mine = Ranges.union(
            slot.ranges for number, slot in self._slots.items() if self._is_mine(number)
        )
        if self.walk((mine & due) | (due - known)):
            self.room = 0  # older messages of the same keys are left, so nothing newer may come
        start = max(dispatch.read_offset, cursor.mark_delete + 1)
        ahead = cursor.undeleted(Ranges.run(start, self._end)) - self._busy - due
        if len(due) >= LOOKAHEAD:
            self.room = 0  # enough messages of other consumers are queued
        unread = self.walk(ahead)
        self.read_offset = max(start, self._end if unread.first is None else unread.first)

    def take(self, entry: Entry, runs: Sequence[Run], at: int) -> int | None:
        """As :meth:`Selection.take`, but each message is opened, and taken or queued by its key."""
        first, end = entry.first_offset, entry.last_offset + 1
        while at < len(runs) and runs[at][0] < end:
            piece = Piece(entry, max(first, runs[at][0]), min(end, runs[at][1]))
            try:
                messages = piece.messages(self._state.number, self._files)
            except CorruptBatch:
                return super().take(entry, runs, at)  # whose keys they are, nobody knows
            for message in messages:
                offset = message.offset
                if self.room <= 0 or self._bytes_left <= 0 or len(self.queued) >= LOOKAHEAD:
                    self.room = 0
                    return offset
                slot = slot_of(message.key, offset)
                is_mine = self._is_mine(slot)
                if is_mine and not self.fits(len(message.payload)):
                    self.room = 0
                    return offset
                self._seen[slot].append(offset)
                if is_mine:
                    self._taken.add(slot)
                    self.room -= 1
                    self._append(entry, offset)
                else:
                    self.queued.append(offset)
            at += 1
        return None

    @property
    def slots(self) -> dict[int, Slot]:
        """The slots after this call, for the dispatch state."""
        slots = dict(self._slots)
        for number, offsets in self._seen.items():
            before = slots.get(number, Slot("", Ranges()))
            who = self._consumer if number in self._taken else before.consumer
            slots[number] = Slot(who, before.ranges | Ranges.of_offsets(offsets))
        return slots

    def _append(self, entry: Entry, offset: int) -> None:
        if self.pieces and self.pieces[-1].entry is entry and self.pieces[-1].upper == offset:
            self.pieces[-1] = Piece(entry, self.pieces[-1].lower, offset + 1)
        else:
            self.pieces.append(Piece(entry, offset, offset + 1))

    def _is_mine(self, slot: int) -> bool:
        known = self._mine.get(slot)
        if known is None:
            holder = owner(self._slots, slot, self._outstanding, self._assigned)
            known = self._mine[slot] = holder == self._consumer
        return known
