"""A subscription's cursor in one partition, and what acknowledgements do to it (semantics §6).

Everything here is algebra on ranges of offsets; engine.subscription stores the results.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from operator import itemgetter
from typing import NamedTuple, cast

import msgspec

from engine.model.errors import TransactionConflict
from engine.model.ranges import NOTHING, Ranges
from engine.model.subscription import AckOp, AckStep, AckType, PendingAck, TentativeAck
from engine.model.txn_id import TxnID

#: How many conflicts an error names; further ones it counts (``more``).
_NAMED_CONFLICTS = 100


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """Everything up to ``mark_delete`` is deleted, and ``acked`` above it."""

    mark_delete: int
    acked: Ranges = NOTHING

    def delete(self, offsets: Ranges) -> Cursor:
        """Acknowledge for good; a contiguous run above the mark-delete position moves it up."""
        if not offsets:
            return self
        acked = (self.acked | offsets) - Ranges.run(0, self.mark_delete + 1)
        if acked.runs and acked.runs[0][0] == self.mark_delete + 1:
            return Cursor(mark_delete=acked.runs[0][1] - 1, acked=Ranges(acked.runs[1:]))
        return Cursor(mark_delete=self.mark_delete, acked=acked)

    def undeleted(self, offsets: Ranges) -> Ranges:
        """Those of ``offsets`` that are not deleted."""
        first = offsets.first
        if first is None or (first > self.mark_delete and not self.acked.runs):
            return offsets
        return offsets - Ranges.run(0, self.mark_delete + 1) - self.acked

    def undeleted_until(self, offset: int) -> Ranges:
        """Everything up to ``offset`` that is not deleted: what a cumulative ack is about."""
        return Ranges.run(self.mark_delete + 1, offset + 1) - self.acked


def held(pending: Iterable[PendingAck]) -> Ranges:
    """The offsets that transactions hold in PENDING_ACK."""
    return Ranges.union(ack.ranges for ack in pending)


def unconfirmed(
    tentative: Iterable[TentativeAck], txn_id: TxnID, confirmed: Collection[int]
) -> Ranges:
    """The offsets that a transaction holds only by calls that are not among the confirmed ones."""
    own = [ack for ack in tentative if ack.txn_id == txn_id]
    sure = Ranges.union(ack.ranges for ack in own if ack.call_id in confirmed)
    return Ranges.union(ack.ranges for ack in own if ack.call_id not in confirmed) - sure


def claim_individual(
    cursor: Cursor,
    pending: Iterable[PendingAck],
    txn_id: TxnID,
    wanted: Ranges,
    unsure: Ranges = NOTHING,
    *,
    dead: Ranges = NOTHING,
) -> Ranges:
    """Decide an individual acknowledgement in a transaction: all of it or nothing.

    Args:
        unsure: what the transaction holds by unconfirmed calls, and may lose again
            (:func:`unconfirmed`). It is claimed anew.
        dead: messages on their way to the dead-letter topic.

    Returns:
        The offsets to claim: those wanted, without those that the transaction holds for sure.

    Raises:
        TransactionConflict: a message is deleted, dead, or in another transaction's PENDING_ACK.
    """
    acks = list(pending)
    new = wanted - (held(ack for ack in acks if ack.txn_id == txn_id) - unsure)
    _refuse(
        _Conflicts(new - cursor.undeleted(new), None, "is acknowledged already"),
        _Conflicts(new & dead, None, "is on its way to the dead-letter topic"),
        *_held_by_others(acks, txn_id, new),
    )
    return new


def claim_cumulative(
    cursor: Cursor,
    pending: Iterable[PendingAck],
    txn_id: TxnID,
    until: int,
    unsure: Ranges = NOTHING,
) -> Ranges:
    """Decide a cumulative acknowledgement in a transaction up to and including ``until``: all of it
    or nothing.

    It claims every undeleted message up to there. Repeating it succeeds without a change. Another
    transaction's cumulative claim always conflicts, because it holds some of these messages.

    Args:
        unsure: as in :func:`claim_individual`.

    Returns:
        The offsets to claim, as in :func:`claim_individual`.

    Raises:
        TransactionConflict: ``until`` is at or below the mark-delete position, below this
            transaction's own cumulative claim, or a message is in another's PENDING_ACK.
    """
    acks = list(pending)
    own = held(ack for ack in acks if ack.txn_id == txn_id) - unsure
    wanted, at = cursor.undeleted_until(until), Ranges.run(until, until + 1)
    found = _held_by_others(acks, txn_id, wanted)
    if until <= cursor.mark_delete:
        found.append(_Conflicts(at, None, "is acknowledged already"))
    for ack in acks:
        if ack.txn_id == txn_id and ack.ack_type is AckType.CUMULATIVE:
            last = ack.ranges.last
            if last is not None and until < last:
                why = f"lies before {last}, up to where {txn_id} has acknowledged"
                found.append(_Conflicts(at, txn_id, why))
    _refuse(*found)
    return wanted - own


def over_partitions(refused: Mapping[int, TransactionConflict]) -> TransactionConflict:
    """One error for a call whose parts in several partitions, by their numbers, are refused: every
    conflict tells its ``partition``. The error itself tells that of the first."""
    first = next(iter(refused))
    found: list[dict[str, object]] = []
    more = 0
    for number, conflict in refused.items():
        conflicts = cast("list[dict[str, object]]", conflict.data["conflicts"])
        found += ({"partition": number} | each for each in conflicts)
        more += cast("int", conflict.data.get("more", 0))
    return _conflict(refused[first].message, found, more=more, partition=first)


def replay(steps: Iterable[AckStep], mark_delete: int) -> tuple[PendingAck, ...]:
    """What transactions hold in one partition, computed from the pending-ack log alone.

    Offsets at or below the mark-delete position are ignored, because the log is trimmed there.
    """
    found: dict[tuple[TxnID, AckType], Ranges] = {}
    for step in steps:
        before = found.get((step.txn_id, step.ack_type), Ranges())
        claims = step.op is AckOp.ACK
        found[step.txn_id, step.ack_type] = before | step.ranges if claims else before - step.ranges
    deleted = Ranges.run(0, mark_delete + 1)
    return tuple(
        PendingAck(txn_id=txn_id, ack_type=ack_type, ranges=ranges - deleted)
        for (txn_id, ack_type), ranges in sorted(found.items())
        if ranges - deleted
    )


class _Conflicts(NamedTuple):
    """Offsets that an acknowledgement may not have, who holds them, and why."""

    offsets: Ranges
    holder: TxnID | None
    why: str


def _held_by_others(acks: Iterable[PendingAck], txn_id: TxnID, wanted: Ranges) -> list[_Conflicts]:
    return [
        _Conflicts(common, ack.txn_id, f"is held by transaction {ack.txn_id}")
        for ack in acks
        if ack.txn_id != txn_id and (common := wanted & ack.ranges)
    ]


def _refuse(*conflicts: _Conflicts) -> None:
    """Refuse an acknowledgement if it has conflicts, and name them by offset."""
    found = [each for each in conflicts if each.offsets]
    if not found:
        return
    named = [(offset, each) for each in found for offset in islice(each.offsets, _NAMED_CONFLICTS)]
    named.sort(key=itemgetter(0))
    offset, first = named[0]
    raise _conflict(
        f"Offset {offset} {first.why}; nothing was recorded.",
        [
            {"offset": offset, "txn_id": str(each.holder) if each.holder else None}
            for offset, each in named
        ],
        more=sum(len(each.offsets) for each in found) - len(named),
    )


def _conflict(
    message: str, conflicts: list[dict[str, object]], *, more: int, **data: object
) -> TransactionConflict:
    """The error; ``more``: conflicts that are not named anyhow."""
    more += max(0, len(conflicts) - _NAMED_CONFLICTS)
    if more:
        data["more"] = more
    return TransactionConflict(message, conflicts=conflicts[:_NAMED_CONFLICTS], **data)
