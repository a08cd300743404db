"""Partitions: what was appended, what readers saw, and where the positions stood."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.checker.anomalies import Anomaly, Kind, regressions
from tests.checker.fates import Fate, Fates
from tests.checker.history import FOREVER, Fetch, Op, Place, Produce, Receive

#: How many undecided appends below the stable position one fetch is compared with.
_WINDOW = 64


@dataclass(slots=True)
class Written:
    """All requests that sent one value. ``ok``: the first that was answered with success."""

    first: Produce
    ok: Produce | None = None
    possible: bool = False


@dataclass(slots=True)
class Log:
    """One partition as the history shows it.

    Attributes:
        visible: what READ_COMMITTED fetches saw, by offset, with the first operation that saw it.
        final: the values that the last complete READ_COMMITTED read saw; None without one.
    """

    visible: dict[int, tuple[str, Op]] = field(default_factory=dict)
    final: set[str] | None = None
    fetches: list[Fetch] = field(default_factory=list)
    appends: list[Produce] = field(default_factory=list)


@dataclass(slots=True)
class Logs:
    """All partitions of a history.

    ``seen``: by value, the READ_COMMITTED fetch or delivery that ended first.
    """

    written: dict[str, Written] = field(default_factory=dict)
    logs: dict[Place, Log] = field(default_factory=lambda: defaultdict(Log))
    seen: dict[str, Op] = field(default_factory=dict)


def logs_of(ops: Iterable[Op]) -> Logs:
    """Read what a history says about partitions, in one pass."""
    found = Logs()
    for op in ops:
        match op:
            case Produce():
                _take_produce(found, op)
            case Fetch(answer="ok"):
                _take_fetch(found, op)
            case Receive(answer="ok"):
                seen = found.seen
                for message in op.messages:
                    value = message[2]
                    if value not in seen or op.end < seen[value].end:
                        seen[value] = op
    return found


def _take_produce(found: Logs, op: Produce) -> None:
    log = found.logs[op.partition]
    if op.answer == "ok":
        log.appends.append(op)
    for value in op.values:
        written = found.written.get(value)
        if written is None:
            written = found.written[value] = Written(op)
        if op.answer != "fail":
            written.possible = True
        if op.answer == "ok" and written.ok is None:
            written.ok = op


def _take_fetch(found: Logs, op: Fetch) -> None:
    log = found.logs[op.partition]
    log.fetches.append(op)
    if not op.committed or op.kept:
        return
    seen, visible = found.seen, log.visible
    for offset, value in op.records:
        if value not in seen or op.end < seen[value].end:
            seen[value] = op
        if offset not in visible:
            visible[offset] = value, op
    if op.final:
        if log.final is None:
            log.final = set()
        log.final.update(value for _, value in op.records)


def settle_by_reads(logs: Logs, fates: Fates) -> None:
    """What a READ_COMMITTED reader saw must have been committed, answered or not."""
    for value, op in logs.seen.items():
        written = logs.written.get(value)
        if written is None or written.first.txn is None:
            continue
        fate = fates[written.first.txn]
        if not fate.has_committed and not fate.has_aborted:
            fate.committed = op


def check_logs(logs: Logs, fates: Fates) -> Iterator[Anomaly]:
    """Everything that can be said of partitions, given the transactions' fates."""
    yield from _check_seen(logs, fates)
    for place, log in logs.logs.items():
        yield from _check_offsets(place, log)
        yield from _check_positions(place, log)
        yield from _check_ranges(place, log)
        yield from _check_stable(place, log, fates)
        yield from _check_aborted_lists(place, log, logs, fates)
        if log.final is not None:
            yield from _check_end(place, log)
    yield from _check_complete(logs, fates)


def _check_seen(logs: Logs, fates: Fates) -> Iterator[Anomaly]:
    """READ_COMMITTED readers see committed messages only, after their commit was asked for."""
    for value, reader in logs.seen.items():
        written = logs.written.get(value)
        if written is None:
            yield Anomaly(Kind.UNWRITTEN_READ, value, (reader,))
        elif not written.possible:
            yield Anomaly(Kind.REFUSED_READ, value, (written.first, reader))
        elif written.first.txn is not None:
            fate = fates[written.first.txn]
            if fate.has_aborted:
                proof = (fate.aborted,) if fate.aborted else ()
                yield Anomaly(Kind.ABORTED_READ, value, (written.first, *proof, reader))
            elif reader.end < fate.commit_asked:
                yield Anomaly(Kind.DIRTY_READ, value, (written.first, reader))


class _Offsets:
    """What stands at each offset of a partition, and where each value stands."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._values: dict[int, tuple[str, Op]] = {}
        self._offsets: dict[str, tuple[int, Op]] = {}

    def learn(self, offset: int, value: str, op: Op) -> Iterator[Anomaly]:
        known = self._values.setdefault(offset, (value, op))
        if known[0] != value:
            yield Anomaly(Kind.OFFSET_REUSED, f"{self._place} at {offset}", (known[1], op))
        where, first = self._offsets.setdefault(value, (offset, op))
        if where != offset:
            both = isinstance(first, Produce) and isinstance(op, Produce)
            kind = Kind.ANSWERS_DISAGREE if both else Kind.DUPLICATE
            yield Anomaly(kind, f"{value} in {self._place}", (first, op))

    def knows(self, offset: int, value: str) -> bool:
        known = self._values.get(offset)
        return known is not None and known[0] == value


def _check_offsets(place: Place, log: Log) -> Iterator[Anomaly]:
    """An offset holds one value for ever, and a value stands at one offset."""
    offsets = _Offsets(place)
    for append in log.appends:
        if append.first is not None:
            for offset, value in enumerate(append.values, append.first):
                yield from offsets.learn(offset, value, append)
    for fetch in log.fetches:
        for offset, value in fetch.records:
            if not offsets.knows(offset, value):
                yield from offsets.learn(offset, value, fetch)


def _check_positions(place: Place, log: Log) -> Iterator[Anomaly]:
    """Offsets follow real time; positions only go forward."""
    appended = (
        (op.start, op.end, op.first, op)
        for op in log.appends
        if op.first is not None and not op.duplicate
    )
    for earlier, later in regressions(appended):
        yield Anomaly(Kind.REORDERED_LOG, place, (earlier, later))
    stable = ((op.start, op.end, op.stable, op) for op in log.fetches)
    for earlier, later in regressions(stable):
        yield Anomaly(Kind.STABLE_WENT_BACK, place, (earlier, later))
    last = ((op.start, op.end, op.last, op) for op in log.fetches)
    for earlier, later in regressions(last):
        yield Anomaly(Kind.LOG_SHRANK, place, (earlier, later))


def _check_ranges(place: Place, log: Log) -> Iterator[Anomaly]:
    """A READ_COMMITTED fetch gives exactly what any other gave of the same range, in order."""
    offsets = sorted(log.visible)
    for fetch in log.fetches:
        if not fetch.committed or fetch.kept:
            continue
        given = [offset for offset, _ in fetch.records]
        if any(later <= earlier for earlier, later in itertools.pairwise(given)):
            yield Anomaly(Kind.REORDERED_LOG, f"{place}: within one answer", (fetch,))
        if given and given[-1] > fetch.stable:
            yield Anomaly(Kind.READ_PAST_STABLE, place, (fetch,))
        lower = bisect_left(offsets, fetch.from_offset)
        upper = bisect_left(offsets, fetch.next_offset)
        if upper - lower > len(given):
            missing = min(set(offsets[lower:upper]) - set(given))
            value, other = log.visible[missing]
            yield Anomaly(Kind.SKIPPED_READ, f"{value} at {missing} of {place}", (other, fetch))


def _check_stable(place: Place, log: Log, fates: Fates) -> Iterator[Anomaly]:
    """No fetch whose stable position covers a message of a transaction that was open throughout.

    A message is surely undecided from the end of its append to the first request to end it.
    """
    held = [
        (op.end, fates[op.txn].end_asked, op.first, op)
        for op in log.appends
        if op.txn is not None and op.first is not None and op.end < fates[op.txn].end_asked
    ]
    held.sort(key=lambda item: item[2])
    firsts = [item[2] for item in held]
    low = 0
    for fetch in sorted(log.fetches, key=lambda op: op.start):
        # What has been decided before this fetch began is so for all later ones.
        while low < len(held) and held[low][1] <= fetch.start:
            low += 1
        position = low
        while position < len(held) and firsts[position] <= fetch.stable:
            appended, decided, _, append = held[position]
            if appended < fetch.start and fetch.end < decided:
                yield Anomaly(Kind.STABLE_PAST_OPEN, place, (append, fetch))
                break
            position += 1
            if position - low > _WINDOW:
                break


def _check_aborted_lists(place: Place, log: Log, logs: Logs, fates: Fates) -> Iterator[Anomaly]:
    """A client that filters by the list gets what the server would have given."""
    for fetch in log.fetches:
        if not fetch.committed:
            continue
        listed = dict(fetch.aborted)
        for txn in listed:
            if fates[txn].has_committed:
                yield Anomaly(Kind.WRONG_ABORTED_LIST, f"{txn} in {place}", (fetch,))
        if not fetch.kept:
            continue
        for offset, value in fetch.records:
            written = logs.written.get(value)
            txn = written.first.txn if written else None
            if txn is None or offset > fetch.stable:
                continue
            fate = fates[txn]
            hidden = listed.get(txn, FOREVER) <= offset
            if fate.has_aborted and not fate.has_committed and not hidden:
                yield Anomaly(Kind.WRONG_ABORTED_LIST, f"{value} in {place}", (fetch,))


def _check_end(place: Place, log: Log) -> Iterator[Anomaly]:
    last = max((op for op in log.fetches if op.final), key=lambda op: op.end)
    if last.stable < last.last:
        yield Anomaly(Kind.STUCK_STABLE, place, (last,))


def _check_complete(logs: Logs, fates: Fates) -> Iterator[Anomaly]:
    """In the end everything that was committed is there, and transactions are there as a whole."""
    shown: dict[str, bool] = defaultdict(bool)
    missing: dict[str, tuple[str, Produce]] = {}
    for value, written in logs.written.items():
        final = logs.logs[written.first.partition].final
        if final is None:
            continue
        txn = written.first.txn
        if value in final:
            if txn is not None:
                shown[txn] = True
        elif written.ok is not None:
            if txn is not None:
                missing.setdefault(txn, (value, written.ok))
            else:
                yield Anomaly(Kind.LOST_WRITE, value, (written.ok,))
    for txn, (value, op) in missing.items():
        yield from _judge_missing(fates[txn], value, op, torn=shown[txn])


def _judge_missing(fate: Fate, value: str, op: Produce, *, torn: bool) -> Iterator[Anomaly]:
    proof = (fate.committed,) if fate.committed else ()
    if torn:
        yield Anomaly(Kind.TORN_TRANSACTION, f"{fate.txn}: {value} is missing", (op, *proof))
    elif fate.has_committed and fate.aborted is None:
        yield Anomaly(Kind.LOST_WRITE, value, (op, *proof))
