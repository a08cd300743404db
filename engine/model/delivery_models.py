"""Three ways of delivering one history, compared: what a reader gets, and after which entry.

- Marker with stable position (Kafka): messages are in the log at once. A reader gets them in the
  order of their offsets, and never passes the first transaction that has not ended.
- Committed order (the same log, read in the order in which messages became readable): the messages
  of a transaction come together, at its commit marker. No open transaction holds up others.
- Sidecar (Pulsar's proposal): messages of a transaction wait beside the log, and take the next
  positions in it when it commits. An abort leaves nothing behind.

All of it is computed from the entries alone, so it can be compared with what the engine answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from engine.model.message import EntryKind, StoredMessage
from engine.model.txn_id import TxnID


class DeliveryModel(StrEnum):
    """The three ways."""

    MARKER = "marker"
    COMMITTED_ORDER = "committed_order"
    SIDECAR = "sidecar"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """A batch or a marker, as it was appended at ``at``."""

    first_offset: int
    last_offset: int
    kind: EntryKind
    txn_id: TxnID | None
    at: datetime

    @property
    def offsets(self) -> range:
        """The offsets of the entry."""
        return range(self.first_offset, self.last_offset + 1)


def history_of(messages: Sequence[StoredMessage]) -> list[HistoryEntry]:
    """A history from messages and markers in the order of their offsets: batches are put together
    again."""
    groups: dict[int, list[StoredMessage]] = {}
    for message in messages:
        groups.setdefault(message.message_id.entry_id, []).append(message)
    return [
        HistoryEntry(
            first_offset=group[0].offset,
            last_offset=group[-1].offset,
            kind=group[0].kind,
            txn_id=group[0].txn_id,
            at=group[0].publish_time,
        )
        for group in groups.values()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A history under one model.

    Attributes:
        steps: ``steps[n]`` has the offsets of the messages that become readable with entry ``n``,
            in the order in which a reader gets them.
        positions: of the sidecar model, where each message is in its log, counted from the first
            entry. In the other models messages keep their offsets, and this is empty.
        delivered: how many messages became readable.
        hidden: how many were committed, or outside transactions, and are not readable at the end.
        undecided: how many are of transactions that have not ended.
        aborted: how many are of transactions that were aborted.
        waited_ms: the time from append until readable, summed up over the delivered messages;
            ``longest_ms``: the longest.
        buffered: the highest number of messages that were kept from readers at the same time.
    """

    model: DeliveryModel
    steps: tuple[tuple[int, ...], ...]
    positions: Mapping[int, int]
    delivered: int
    hidden: int
    undecided: int
    aborted: int
    waited_ms: float
    longest_ms: float
    buffered: int

    @property
    def mean_wait_ms(self) -> float | None:
        """The mean time from append until readable; None when nothing was delivered."""
        return self.waited_ms / self.delivered if self.delivered else None


def compare(
    entries: Sequence[HistoryEntry], begun: Mapping[TxnID, int] | None = None
) -> tuple[Run, ...]:
    """Run a history under each model.

    Args:
        entries: the history, in the order of its offsets.
        begun: transactions that are open where the history begins, with their first offsets. What
            they wrote before that is not part of the comparison.
    """
    begun = begun or {}
    runs = {
        DeliveryModel.MARKER: _by_stable_position(entries, begun),
        DeliveryModel.COMMITTED_ORDER: _by_commit(entries),
        DeliveryModel.SIDECAR: _by_commit(entries),
    }
    return tuple(_measured(model, entries, steps) for model, steps in runs.items())


def _by_stable_position(
    entries: Sequence[HistoryEntry], begun: Mapping[TxnID, int]
) -> list[tuple[int, ...]]:
    ongoing = dict(begun)
    aborted: set[TxnID] = set()
    waiting: list[tuple[int, TxnID | None]] = []
    steps: list[tuple[int, ...]] = []
    for entry in entries:
        if entry.kind is EntryKind.DATA:
            waiting += [(offset, entry.txn_id) for offset in entry.offsets]
            if entry.txn_id is not None:
                ongoing.setdefault(entry.txn_id, entry.first_offset)
        elif entry.txn_id is not None:
            ongoing.pop(entry.txn_id, None)
            if entry.kind is EntryKind.TXN_ABORT:
                aborted.add(entry.txn_id)
        fence = min(ongoing.values(), default=entry.last_offset + 1)
        passed = [each for each in waiting if each[0] < fence]
        waiting = waiting[len(passed) :]
        steps.append(tuple(offset for offset, txn_id in passed if txn_id not in aborted))
    return steps


def _by_commit(entries: Iterable[HistoryEntry]) -> list[tuple[int, ...]]:
    kept: dict[TxnID, list[int]] = {}
    steps: list[tuple[int, ...]] = []
    for entry in entries:
        ready: tuple[int, ...] = ()
        if entry.txn_id is None:
            ready = tuple(entry.offsets)
        elif entry.kind is EntryKind.DATA:
            kept.setdefault(entry.txn_id, []).extend(entry.offsets)
        else:
            own = kept.pop(entry.txn_id, [])
            ready = tuple(own) if entry.kind is EntryKind.TXN_COMMIT else ()
        steps.append(ready)
    return steps


def _measured(
    model: DeliveryModel, entries: Sequence[HistoryEntry], steps: Sequence[tuple[int, ...]]
) -> Run:
    of_offset = {
        offset: entry
        for entry in entries
        if entry.kind is EntryKind.DATA
        for offset in entry.offsets
    }
    outcome = {entry.txn_id: entry.kind for entry in entries if entry.kind is not EntryKind.DATA}
    waits = [
        max(0.0, (entry.at - of_offset[offset].at).total_seconds() * 1000)
        for entry, step in zip(entries, steps, strict=True)
        for offset in step
    ]
    order = [offset for step in steps for offset in step]
    delivered = frozenset(order)
    left = [entry.txn_id for offset, entry in of_offset.items() if offset not in delivered]
    aborted = sum(outcome.get(txn_id) is EntryKind.TXN_ABORT for txn_id in left)
    undecided = sum(txn_id is not None and txn_id not in outcome for txn_id in left)
    sidecar = model is DeliveryModel.SIDECAR
    return Run(
        model=model,
        steps=tuple(steps),
        positions={offset: n for n, offset in enumerate(order)} if sidecar else {},
        delivered=len(order),
        hidden=len(left) - aborted - undecided,
        undecided=undecided,
        aborted=aborted,
        waited_ms=sum(waits),
        longest_ms=max(waits, default=0.0),
        buffered=_most_kept(entries, steps),
    )


def _most_kept(entries: Sequence[HistoryEntry], steps: Sequence[tuple[int, ...]]) -> int:
    """The highest number of messages that were, at one time, neither readable nor aborted."""
    of_txn: dict[TxnID | None, set[int]] = {}
    kept: set[int] = set()
    most = 0
    for entry, step in zip(entries, steps, strict=True):
        if entry.kind is EntryKind.DATA:
            kept |= set(entry.offsets)
            of_txn.setdefault(entry.txn_id, set()).update(entry.offsets)
        elif entry.kind is EntryKind.TXN_ABORT:
            kept -= of_txn.get(entry.txn_id, set())
        kept -= set(step)
        most = max(most, len(kept))
    return most
