"""A subscription's state in one partition, and what acknowledgements do to it (semantics §6).

Pure algebra on ranges of offsets; engine.subscription stores the results.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.model.errors import TransactionConflict
from engine.model.ranges import Ranges
from engine.model.subscription import PendingAck
from engine.model.txn_id import TxnID

_NAMED_CONFLICTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Everything up to ``mark_delete`` is deleted, and ``acked`` above it."""

    mark_delete: int
    acked: Ranges = field(default_factory=Ranges)

    def delete(self, offsets: Ranges) -> Cursor:
        """Acknowledge for good; a contiguous run above the mark-delete position moves it up."""
        acked = (self.acked | offsets) - Ranges.of([(0, self.mark_delete + 1)])
        if acked.runs and acked.runs[0][0] == self.mark_delete + 1:
            return Cursor(mark_delete=acked.runs[0][1] - 1, acked=Ranges(acked.runs[1:]))
        return Cursor(mark_delete=self.mark_delete, acked=acked)

    def undeleted(self, offsets: Ranges) -> Ranges:
        """Those of ``offsets`` that are not deleted."""
        return offsets - Ranges.of([(0, self.mark_delete + 1)]) - self.acked


def held(pending: Iterable[PendingAck]) -> Ranges:
    """What transactions hold in PENDING_ACK."""
    return Ranges.of(run for ack in pending for run in ack.ranges.runs)


def claim_individual(
    cursor: Cursor, pending: Iterable[PendingAck], txn_id: TxnID, wanted: Ranges
) -> Ranges:
    """Decide a transactional individual ack: all of it or none.

    Returns:
        The offsets that the transaction newly holds; those that it holds already are left out.

    Raises:
        TransactionConflict: a message is deleted, or in another transaction's PENDING_ACK.
    """
    acks = list(pending)
    new = wanted - held(ack for ack in acks if ack.txn_id == txn_id)
    _refuse(new - cursor.undeleted(new), "is acknowledged already")
    for ack in acks:
        if ack.txn_id != txn_id:
            _refuse(new & ack.ranges, f"is held by transaction {ack.txn_id}", ack.txn_id)
    return new


def _refuse(conflicts: Ranges, why: str, holder: TxnID | None = None) -> None:
    if not conflicts:
        return
    named = [offset for offset, _ in zip(conflicts, range(_NAMED_CONFLICTS), strict=False)]
    raise TransactionConflict(
        f"Offset {named[0]} {why}; nothing was recorded.",
        conflicts=[
            {"offset": offset, "txn_id": str(holder) if holder else None} for offset in named
        ],
    )
