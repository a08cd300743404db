"""The reference engine's sidecar-buffered partition (semantics §4.3, PIP-31)."""

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
from engine.model.message import Visibility
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from tests.model.partitions import COMMITTED, DATA, MarkerPartition, Message


@dataclass
class SidecarPartition(MarkerPartition):
    """Messages of a transaction wait beside the log and enter it whole, with its commit.

    ``beside`` is the sidecar log: by its own offsets, what has not ended. Nothing in the partition
    waits for anything, and there is nothing aborted in it.
    """

    beside: dict[int, Message] = field(default_factory=dict)
    beside_end: int = 0

    @property
    def stable(self) -> int:
        """Readers never wait for an open transaction."""
        return self.end - 1

    def ongoing(self) -> dict[TxnID, list[int]]:
        """Offsets of the sidecar."""
        found: dict[TxnID, list[int]] = {}
        for offset, message in sorted(self.beside.items()):
            assert message.txn_id is not None
            found.setdefault(message.txn_id, []).append(offset)
        return found

    def visibility(self, offset: int) -> Visibility:
        return Visibility.VISIBLE if self.log[offset].kind is DATA else Visibility.MARKER

    def append(
        self,
        texts: Sequence[str],
        txn_id: TxnID | None = None,
        producer: str | None = None,
        sequence_id: int | None = None,
    ) -> tuple[int, int, bool]:
        """In a transaction, the answer's positions are the sidecar's."""
        if txn_id is None:
            return super().append(texts, None, producer, sequence_id)
        if not self.online:
            raise PartitionUnavailable
        if txn_id in self.ended or txn_id.sequence <= self.marks.get(txn_id.tc_id, -1):
            raise InvalidTxnStatus
        if producer is not None and self.deduplication:
            mine = [m for m in self.beside.values() if (m.producer, m.txn_id) == (producer, txn_id)]
            known = {m.sequence_id: m.batch for m in mine}
            assert sequence_id is not None
            if sequence_id in known:
                return (*known[sequence_id], True)
            if any(seen > sequence_id for seen in known if seen is not None):
                raise SequenceOutOfOrder
        span = self.beside_end, self.beside_end + len(texts) - 1
        for text in texts:
            message = Message(DATA, txn_id, text, producer, sequence_id, span)
            self.beside[self.beside_end] = message
            self.beside_end += 1
        return (*span, False)

    def truncate(self, offset: int, held: Mapping[TxnID, int]) -> list[TxnID]:
        """Not below the last commit; what is open has nothing in the log."""
        if self.online:
            raise InvalidPartitionState
        if offset < self.start:
            raise InvalidRequest("It is below the log's start.", field="offset")
        cut = self.cut_at(offset)
        if any(m.kind is DATA and m.txn_id and o >= cut for o, m in self.log.items()):
            raise InvalidRequest("What has been committed cannot be cut off.", field="offset")
        return [txn_id for txn_id, last in held.items() if last >= cut]

    def cut(self, offset: int) -> int:
        """The fence stays: what has ended has ended, although an empty commit's marker goes."""
        ended = {**self.ended}
        entries = super().cut(offset)
        self.ended = ended
        return entries

    def _tells_an_end(self, message: Message) -> bool:
        return True  # Of a transaction, what has been committed alone is here.

    def _end(self, txn_id: TxnID, action: TxnAction, *, registered: bool = True) -> None:
        """A commit puts the messages into the log, in the order in which they came; its marker
        stands for them, and for itself when there are none. An abort leaves nothing there."""
        self.ended[txn_id] = action
        offsets = self.ongoing().get(txn_id, [])
        messages = [self.beside.pop(offset) for offset in offsets]
        if messages:
            self.beside_end += 1  # the sidecar's marker
        if action is TxnAction.ABORT:
            return
        self._roll(len(messages))
        last = self.end + max(len(messages), 1) - 1
        span = self.end, last
        if not messages:
            self._put(Message(COMMITTED, txn_id, "", batch=span))
        for message in messages:
            self._put(
                Message(DATA, txn_id, message.text, message.producer, message.sequence_id, span)
            )
