"""The reference engine's marker-buffered partition: one record per offset, nothing derived.

Every question looks at the whole log (semantics §4, §4.1, §4.2, §7).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.model.errors import (
    InvalidPartitionState,
    InvalidRequest,
    InvalidTxnStatus,
    PartitionUnavailable,
    SequenceOutOfOrder,
)
from engine.model.message import EntryKind, Visibility
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction

DATA, COMMITTED, ABORTED = EntryKind
MARKER = {TxnAction.COMMIT: COMMITTED, TxnAction.ABORT: ABORTED}


@dataclass(frozen=True)
class Message:
    """What stands at one offset: a message of a batch, or a marker."""

    kind: EntryKind
    txn_id: TxnID | None
    text: str
    producer: str | None = None
    sequence_id: int | None = None
    batch: tuple[int, int] = (0, 0)


@dataclass
class Segment:
    """A ledger: it begins at an offset, and may be past its retention."""

    first: int
    aged: bool = False


@dataclass(frozen=True)
class IndexRow:
    """A row of the aborted-transaction index, committed ones too; ``lso`` is exclusive (§4.2)."""

    txn_id: TxnID
    action: TxnAction
    first: int
    last: int
    lso: int


@dataclass(frozen=True)
class Fetched:
    messages: list[tuple[int, str]]
    aborted: list[tuple[TxnID, int]] | None
    stable: int
    last: int
    next: int
    start: int


@dataclass
class MarkerPartition:
    """A partition log with its marker buffer. ``ended`` and ``marks`` are the fence."""

    segment_max: int
    deduplication: bool = True
    log: dict[int, Message] = field(default_factory=dict)
    start: int = 0
    end: int = 0
    online: bool = True
    segments: list[Segment] = field(default_factory=lambda: [Segment(0)])
    ended: dict[TxnID, TxnAction] = field(default_factory=dict)
    marks: dict[int, int] = field(default_factory=dict)
    index: list[IndexRow] = field(default_factory=list)
    dropped: dict[str, Message] = field(default_factory=dict)
    #: Messages of aborted transactions whose marker has been cut: readers may have passed them.
    reopened: set[int] = field(default_factory=set)

    # Positions

    def owner_marker(self, offset: int) -> int | None:
        """The marker that ended the transaction of the message at an offset: the next of its id.

        By position, not by id alone: an orphan is hidden without what its id committed before.
        """
        txn_id = self.log[offset].txn_id
        for later in range(offset + 1, self.end):
            if self.log[later].kind is not DATA and self.log[later].txn_id == txn_id:
                return later
        return None

    def ongoing(self) -> dict[TxnID, list[int]]:
        """The offsets of every transaction with data and without a marker, by first offset."""
        found: dict[TxnID, list[int]] = {}
        for offset, message in sorted(self.log.items()):
            if message.kind is DATA and message.txn_id and self.owner_marker(offset) is None:
                found.setdefault(message.txn_id, []).append(offset)
        return found

    @property
    def stable(self) -> int:
        """(Lowest first offset of an ongoing transaction) - 1, else the last offset (§4.1)."""
        return min((offsets[0] for offsets in self.ongoing().values()), default=self.end) - 1

    def visibility(self, offset: int) -> Visibility:
        message = self.log[offset]
        if message.kind is not DATA:
            return Visibility.MARKER
        if message.txn_id is not None:
            marker = self.owner_marker(offset)
            if marker is None:
                return Visibility.OPEN
            if self.log[marker].kind is ABORTED:
                return Visibility.ABORTED
        return Visibility.VISIBLE if offset <= self.stable else Visibility.BLOCKED

    def waits(self, offset: int) -> bool:
        """Whether it holds a message that readers wait for."""
        waiting = Visibility.OPEN, Visibility.BLOCKED
        return offset in self.log and self.visibility(offset) in waiting

    def visible(self) -> list[int]:
        """What a READ_COMMITTED reader gets of the whole log."""
        return [o for o in sorted(self.log) if self.visibility(o) is Visibility.VISIBLE]

    # Appending and ending

    def append(
        self,
        texts: Sequence[str],
        txn_id: TxnID | None = None,
        producer: str | None = None,
        sequence_id: int | None = None,
    ) -> tuple[int, int, bool]:
        """Answers first and last offset, and whether it is a duplicate (§4)."""
        if not self.online:
            raise PartitionUnavailable
        if txn_id is not None and (
            txn_id in self.ended or txn_id.sequence <= self.marks.get(txn_id.tc_id, -1)
        ):
            raise InvalidTxnStatus
        if producer is not None and self.deduplication:
            known = self.known(txn_id, producer)
            assert sequence_id is not None
            if sequence_id in known:
                return (*known[sequence_id], True)
            if sequence_id < max(known, default=-1):
                raise SequenceOutOfOrder
        self._roll(len(texts))
        span = self.end, self.end + len(texts) - 1
        for text in texts:
            self._put(Message(DATA, txn_id, text, producer, sequence_id, span))
        return (*span, False)

    def finish(self, txn_id: TxnID, action: TxnAction, *, registered: bool = True) -> bool:
        """EndTxnOnPartition, exactly once; False when the opposite end was first (§4)."""
        if txn_id in self.ended:
            return self.ended[txn_id] is action
        if txn_id.sequence <= self.marks.get(txn_id.tc_id, -1):
            return True
        self._end(txn_id, action, registered=registered)
        return True

    def raise_mark(self, tc_id: int, mark: int, decisions: Mapping[TxnID, TxnAction]) -> None:
        """The maximum seen per coordinator; every orphan at or below it ends as it was decided, or
        aborts: where nobody knows it, and where the same id has ended before (§4)."""
        self.marks[tc_id] = max(mark, self.marks.get(tc_id, -1))
        known = decisions.keys() - {m.txn_id for m in self.log.values() if self._tells_an_end(m)}
        for txn_id in self.ongoing():
            if txn_id.tc_id == tc_id and txn_id.sequence <= self.marks[tc_id]:
                self._end(txn_id, decisions[txn_id] if txn_id in known else TxnAction.ABORT)

    def _tells_an_end(self, message: Message) -> bool:
        return message.kind is not DATA

    def end_orphans(self, actions: Mapping[TxnID, TxnAction]) -> list[TxnID]:
        """Carry decisions out on what is ongoing, in the order of the first offsets."""
        orphans = [txn_id for txn_id in self.ongoing() if txn_id in actions]
        for txn_id in orphans:
            self._end(txn_id, actions[txn_id])
        return orphans

    # Reading

    def fetch(
        self, from_offset: int, size: int, *, committed: bool = True, keep_aborted: bool = False
    ) -> Fetched:
        """One fetch; the list is Kafka's, over what was read (§4.2)."""
        if not self.online:
            raise PartitionUnavailable
        lower = max(from_offset, self.start)
        limit = self.stable + 1 if committed else self.end
        upper = max(lower, min(lower + size, limit))
        wanted = {Visibility.VISIBLE} | ({Visibility.ABORTED} if keep_aborted else set())
        return Fetched(
            messages=[
                (offset, self.log[offset].text)
                for offset in range(lower, upper)
                if self.log[offset].kind is DATA
                and (not committed or self.visibility(offset) in wanted)
            ],
            aborted=[
                (row.txn_id, row.first)
                for row in self.index
                if row.action is TxnAction.ABORT
                and lower < upper  # of what was read
                and row.last >= lower
                and row.first < upper
            ]
            if committed
            else None,
            stable=self.stable,
            last=self.end - 1,
            next=upper,
            start=self.start,
        )

    # Operators and retention

    def truncate(self, offset: int, held: Mapping[TxnID, int]) -> list[TxnID]:
        """What keeps a cut at ``offset`` from being made: who has written or acknowledged there.

        ``held``: the highest offset that each transaction has acknowledged.
        """
        if self.online:
            raise InvalidPartitionState
        if offset < self.start:
            raise InvalidRequest("It is below the log's start.", field="from_offset")
        cut = self.cut_at(offset)
        last = {txn_id: offsets[-1] for txn_id, offsets in self.ongoing().items()}
        return [t for t in {*last, *held} if max(last.get(t, -1), held.get(t, -1)) >= cut]

    def cut_at(self, offset: int) -> int:
        """Whole batches only."""
        return self.log[offset].batch[0] if offset in self.log else min(offset, self.end)

    def cut(self, offset: int) -> int:
        """Cut the log at a batch's beginning; answers how many entries went (§4.2).

        A transaction whose marker goes is open again if it has messages left. Without any it has
        ended as before, and a repetition writes no marker.
        """
        if offset >= self.end:
            return 0
        self.reopened = {
            o
            for o in self.log
            if o < offset and (o in self.reopened or self.visibility(o) is Visibility.ABORTED)
        }
        gone = [self.log.pop(o) for o in range(offset, self.end)]
        self.end = offset
        self.index = [row for row in self.index if row.last < offset]
        for txn_id in self.ongoing():
            self.ended.pop(txn_id, None)
        self.dropped = {p: m for p, m in self.dropped.items() if m.batch[1] < offset}
        # A new ledger: no message id may name another message.
        self.segments = [s for s in self.segments if s.first < offset] + [Segment(offset)]
        return len({message.batch[0] for message in gone})

    def seal(self) -> None:
        """Close the open segment if it holds anything."""
        if self.end > self.segments[-1].first:
            self.segments.append(Segment(self.end))

    def retain(self, slowest: int) -> None:
        """Drop aged segments, whole, oldest first, never above the stable position nor the slowest
        subscription (§7)."""
        while len(self.segments) > 1 and self.segments[0].aged:
            upper = self.segments[1].first
            if upper - 1 > min(self.stable, slowest):
                return
            for offset in range(self.start, upper):
                message = self.log.pop(offset)
                if message.producer is not None and message.txn_id is None:
                    known = self.dropped.get(message.producer)
                    if known is None or known.sequence_id < message.sequence_id:  # type: ignore[operator]
                        self.dropped[message.producer] = message
            self.start = upper
            self.index = [row for row in self.index if row.last >= upper]
            del self.segments[0]

    def known(self, txn_id: TxnID | None, producer: str) -> dict[int, tuple[int, int]]:
        """Sequence ids that a producer has used, in this transaction or outside of all (§4).

        Of what retention has dropped only each producer's newest batch is remembered.
        """
        known = {
            m.sequence_id: m.batch
            for m in self.log.values()
            if m.kind is DATA and (m.producer, m.txn_id) == (producer, txn_id)
        }
        if txn_id is None and producer in self.dropped:
            known[self.dropped[producer].sequence_id] = self.dropped[producer].batch
        return {s: span for s, span in known.items() if s is not None}

    def _end(self, txn_id: TxnID, action: TxnAction, *, registered: bool = True) -> None:
        offsets = self.ongoing().get(txn_id)
        self.ended[txn_id] = action
        if not offsets and not registered and action is TxnAction.ABORT:
            return
        marker = self.end
        self._put(Message(MARKER[action], txn_id, "", batch=(marker, marker)))
        if offsets:
            others = [mine[0] for mine in self.ongoing().values()]
            lso = min(others, default=marker + 1)
            self.index.append(IndexRow(txn_id, action, offsets[0], marker, lso))

    def _roll(self, size: int) -> None:
        first = self.segments[-1].first
        if self.end > first and self.end - first + size > self.segment_max:
            self.segments.append(Segment(self.end))

    def _put(self, message: Message) -> None:
        self.log[self.end] = message
        self.end += 1
