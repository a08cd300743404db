"""Transactions: what was asked of each, what was answered, and whether it fits together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.checker.anomalies import Anomaly, Kind, Timed, regressions
from tests.checker.history import (
    FOREVER,
    Ack,
    Begin,
    End,
    Extend,
    Look,
    Op,
    Overdue,
    Produce,
    Txn,
)

_OPEN, _DECIDED, _ENDED = range(3)
_RANK = {
    "OPEN": _OPEN,
    "COMMITTING": _DECIDED,
    "ABORTING": _DECIDED,
    "COMMITTED": _ENDED,
    "ABORTED": _ENDED,
}
_COMMIT = ("COMMITTING", "COMMITTED")
_ABORT = ("ABORTING", "ABORTED")
_MS = 1_000_000


@dataclass(slots=True)
class Fate:
    """One transaction.

    Attributes:
        commit_asked, abort_asked: when the first request that may have decided it so was sent; for
            aborts, also when a deadline may have passed. FOREVER: never.
        committed, aborted: an operation that proves the decision.
    """

    txn: Txn
    begun: Begin | None = None
    commit_asked: int = FOREVER
    abort_asked: int = FOREVER
    committed: Op | None = None
    aborted: Op | None = None
    commits: list[End] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    observed: list[Timed] = field(default_factory=list)
    last_look: Look | None = None

    @property
    def has_committed(self) -> bool:
        return self.committed is not None

    @property
    def has_aborted(self) -> bool:
        """For certain: seen so, or never asked to commit."""
        return self.aborted is not None or self.commit_asked == FOREVER

    @property
    def end_asked(self) -> int:
        """Before this moment it was open."""
        return min(self.commit_asked, self.abort_asked)

    @property
    def released(self) -> int:
        """Before this moment nothing that it holds could have been given back."""
        return FOREVER if self.has_committed else self.abort_asked

    @property
    def let_go(self) -> int:
        """After this moment it holds nothing that it gives back; a decision alone is not enough."""
        return min((end for _, end, rank, _ in self.observed if rank == _ENDED), default=FOREVER)

    def see(self, status: str | None, op: Op) -> None:
        """Take in a status that an answer named."""
        if status is None:
            return
        self.observed.append((op.start, op.end, _RANK[status], op))
        if status in _COMMIT and (self.committed is None or op.end < self.committed.end):
            self.committed = op
        if status in _ABORT and (self.aborted is None or op.end < self.aborted.end):
            self.aborted = op


class Fates(dict[Txn, Fate]):
    """All transactions of a history."""

    def __missing__(self, txn: Txn) -> Fate:
        fate = self[txn] = Fate(txn)
        return fate


def fates_of(ops: Iterable[Op]) -> Fates:
    """Read what a history says about its transactions, in one pass."""
    fates = Fates()
    all_overdue = FOREVER
    for op in ops:
        if isinstance(op, Overdue) and op.txn is None:
            all_overdue = min(all_overdue, op.start)
        else:
            _take(fates, op)
    for fate in fates.values():
        fate.abort_asked = min(fate.abort_asked, _earliest_deadline(fate), all_overdue)
    return fates


def _take(fates: Fates, op: Op) -> None:
    match op:
        case Produce(txn=txn) | Ack(txn=txn) if txn is not None:
            _take_joining(fates[txn], op)
        case Begin(answer="ok", txn=txn) if txn is not None:
            fates[txn].begun = fates[txn].begun or op
        case End():
            _take_end(fates, op)
        case Extend(txn=txn):
            fates[txn].extends.append(op)
            _take_joining(fates[txn], op)
        case Look(txn=txn):
            fates[txn].see(op.seen, op)
            if op.final and op.answer == "ok":
                fates[txn].last_look = op
        case Overdue(txn=txn):
            fates[txn].abort_asked = min(fates[txn].abort_asked, op.start)


def _take_joining(fate: Fate, op: Op) -> None:
    """Only an OPEN transaction takes messages, acknowledgements and extensions."""
    if op.answer == "ok":
        fate.see("OPEN", op)
    elif op.answer == "fail" and op.code == "InvalidTxnStatus":
        if op.status is not None:
            fate.see(op.status, op)
        else:
            fate.observed.append((op.start, op.end, _DECIDED, op))


def _take_end(fates: Fates, op: End) -> None:
    refused = op.answer == "fail"
    for txn in op.commit:
        if not refused:
            fates[txn].commit_asked = min(fates[txn].commit_asked, op.start)
            fates[txn].commits.append(op)
    for txn in op.abort:
        if not refused:
            fates[txn].abort_asked = min(fates[txn].abort_asked, op.start)
    for txn, status in op.statuses.items():
        fates[txn].see(status, op)
    if refused and op.code == "InvalidTxnStatus" and len(op.commit) + len(op.abort) == 1:
        # The opposite has been decided, whether or not the answer says so.
        opposite = "ABORTING" if op.commit else "COMMITTING"
        fates[(*op.commit, *op.abort)[0]].see(op.status or opposite, op)


def _earliest_deadline(fate: Fate) -> int:
    """The earliest moment at which the transaction's deadline can have passed."""
    if fate.begun is None:
        return 0
    earliest = fate.begun.start + fate.begun.timeout_ms * _MS
    for extend in sorted(fate.extends, key=lambda op: op.start):
        if extend.answer == "fail":
            continue
        moved = extend.start + extend.timeout_ms * _MS
        earliest = moved if extend.answer == "ok" else min(earliest, moved)
    return earliest


def check_fates(ops: Iterable[Op], fates: Fates) -> Iterator[Anomaly]:
    """Everything that can be said of transactions without looking at messages."""
    yield from _check_ids(ops)
    for fate in fates.values():
        yield from _check_decision(fate)
        yield from _check_order(fate)
        if fate.last_look is not None and fate.last_look.seen not in ("COMMITTED", "ABORTED"):
            yield Anomaly(Kind.STUCK_TRANSACTION, fate.txn, (fate.last_look,))
    for op in ops:
        if isinstance(op, End) and op.answer != "fail" and len(op.commit) + len(op.abort) > 1:
            yield from _check_group(op, fates)


def _check_decision(fate: Fate) -> Iterator[Anomaly]:
    committed, aborted = fate.committed, fate.aborted
    if committed is not None and aborted is not None:
        yield Anomaly(Kind.DECISION_REVERSED, fate.txn, (committed, aborted))
    if committed is not None and committed.end < fate.commit_asked:
        yield Anomaly(Kind.UNASKED_COMMIT, fate.txn, (committed,))
    if aborted is not None and aborted.end < fate.abort_asked:
        yield Anomaly(Kind.UNASKED_ABORT, fate.txn, (aborted,))


def _check_order(fate: Fate) -> Iterator[Anomaly]:
    for earlier, later in regressions(fate.observed):
        joined = isinstance(later, Produce | Ack | Extend)
        kind = Kind.JOINED_AFTER_END if joined else Kind.STATUS_WENT_BACK
        yield Anomaly(kind, fate.txn, (earlier, later))


def _check_group(group: End, fates: Fates) -> Iterator[Anomaly]:
    """All by one decision: when it alone can have committed one, it has decided the others."""
    proof = next(
        (
            fates[txn].committed
            for txn in group.commit
            if fates[txn].has_committed
            and all(op.group == group.group for op in fates[txn].commits)
        ),
        None,
    )
    if proof is None:
        return
    for txn in (*group.commit, *group.abort):
        fate = fates[txn]
        against = fate.aborted if txn in group.commit else fate.committed
        if against is not None:
            yield Anomaly(Kind.TORN_GROUP, f"{group.group}: {txn}", (group, proof, against))


def _check_ids(ops: Iterable[Op]) -> Iterator[Anomaly]:
    seen: dict[Txn, Begin] = {}
    by_coordinator: dict[str, list[Timed]] = {}
    for op in ops:
        if not isinstance(op, Begin) or op.answer != "ok" or op.txn is None:
            continue
        if op.txn in seen:
            yield Anomaly(Kind.ID_REUSED, op.txn, (seen[op.txn], op))
        seen[op.txn] = op
        coordinator, _, sequence = op.txn.partition(":")
        by_coordinator.setdefault(coordinator, []).append((op.start, op.end, int(sequence), op))
    for items in by_coordinator.values():
        for earlier, later in regressions(items):
            yield Anomaly(Kind.IDS_OUT_OF_ORDER, "a later id is lower", (earlier, later))
