"""A log told by its entries alone: what it means by brute force, and Kafka's index by the book.

Nothing of the engine is used: every answer looks at all entries, but for :func:`scan`, which is
the seed's scan with its stop rule (seeds/004, "Broker Fetch Handling"; reference/kafka.md §2.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

from txnconsole.client.filtering import FetchedBatch

KINDS = {"D": "DATA", "C": "TXN_COMMIT", "A": "TXN_ABORT"}


@dataclass(frozen=True)
class Entry:
    first: int
    last: int
    kind: str
    txn: str | None
    ledger: int


@dataclass(frozen=True)
class IndexRow:
    """``last`` is the marker's offset, ``last_stable`` is exclusive."""

    ledger: int
    txn: str
    first: int
    last: int
    last_stable: int
    aborted: bool


class ReplayedLog:
    """Entries from offset 0 on, without gaps."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = tuple(entries)
        self.end = entries[-1].last + 1 if entries else 0

    def fate(self, position: int) -> str | None:
        """The kind of the marker that ends the entry at an index of ``entries``; None: open."""
        entry = self.entries[position]
        return next(
            (
                later.kind
                for later in self.entries[position + 1 :]
                if later.txn == entry.txn and later.kind != "D"
            ),
            None,
        )

    @cached_property
    def fates(self) -> list[str | None]:
        """By entry; data outside transactions counts as committed, markers have none."""
        return [
            None if entry.kind != "D" else "C" if entry.txn is None else self.fate(position)
            for position, entry in enumerate(self.entries)
        ]

    @cached_property
    def stable_position(self) -> int:
        pairs = zip(self.entries, self.fates, strict=True)
        undecided = (entry.first for entry, fate in pairs if entry.kind == "D" and fate is None)
        return next(undecided, self.end) - 1

    @cached_property
    def committed_offsets(self) -> list[int]:
        """What READ_COMMITTED readers get of the whole log, in published order."""
        return [
            offset
            for entry, fate in zip(self.entries, self.fates, strict=True)
            if fate == "C"
            for offset in range(entry.first, entry.last + 1)
            if offset <= self.stable_position
        ]

    @cached_property
    def committed_order(self) -> list[int]:
        """The offsets of all committed messages in the order in which they became readable."""
        found: list[int] = []
        pending: dict[str, list[int]] = {}
        for entry in self.entries:
            offsets = range(entry.first, entry.last + 1)
            if entry.txn is None:
                found += offsets
            elif entry.kind == "D":
                pending.setdefault(entry.txn, []).extend(offsets)
            else:
                ended = pending.pop(entry.txn, [])
                found += ended if entry.kind == "C" else []
        return found

    @cached_property
    def index(self) -> list[IndexRow]:
        """The rows that each marker has to leave, by replaying the entries one by one."""
        ongoing: dict[str, int] = {}
        rows = []
        for entry in self.entries:
            if entry.txn is None:
                continue
            if entry.kind == "D":
                ongoing.setdefault(entry.txn, entry.first)
            elif entry.txn in ongoing:
                first = ongoing.pop(entry.txn)
                stable = min(ongoing.values(), default=entry.last + 1)
                rows.append(
                    IndexRow(entry.ledger, entry.txn, first, entry.last, stable, entry.kind == "A")
                )
        return rows

    def batches(self, lower: int, upper: int) -> list[FetchedBatch]:
        """What a client that filters by itself gets of [lower, upper)."""
        return [
            FetchedBatch(
                first_offset=max(entry.first, lower),
                last_offset=min(entry.last, upper - 1),
                txn_id=entry.txn,
                kind=KINDS[entry.kind],
            )
            for entry in self.entries
            if entry.last >= lower and entry.first < upper
        ]

    def ledger_at(self, offset: int) -> int:
        """The segment in which an offset stands or will stand."""
        for entry in self.entries:
            if entry.last >= offset:
                return entry.ledger
        return self.entries[-1].ledger if self.entries else 0


def scan(rows: Iterable[IndexRow], ledger: int, lower: int, upper: int) -> list[tuple[int, str]]:
    """The aborted transactions for [lower, upper), from a segment's rows on, with the stop rule:
    after the first row whose last stable offset reaches the upper bound nothing can be missing."""
    found = []
    for row in rows:
        if row.ledger < ledger or not row.aborted:
            continue
        if row.last >= lower and row.first < upper:
            found.append((row.first, row.txn))
        if row.last_stable >= upper:
            break
    return found


def overlap(rows: Iterable[IndexRow], lower: int, upper: int) -> list[tuple[int, str]]:
    """The aborted transactions whose span meets [lower, upper), as the engine finds them."""
    return [
        (row.first, row.txn)
        for row in rows
        if row.aborted and row.last >= lower and row.first < upper
    ]


def random_log(random: Random, steps: int) -> ReplayedLog:
    """A log of batches, transactions that interleave, ids that come back after their marker,
    markers without data, orphans aborted together, and cut ends."""
    entries: list[Entry] = []
    txns = [f"{tc}:{sequence}" for tc in (0, 1) for sequence in range(random.randint(1, 4))]
    segment, ledger, begun = random.choice((3, 7, 10**6)), 0, 0

    def add(kind: str, txn: str | None, size: int = 1) -> None:
        nonlocal ledger, begun
        first = entries[-1].last + 1 if entries else 0
        if first > begun and first + size - begun > segment:
            ledger, begun = ledger + 1, first
        entries.append(Entry(first, first + size - 1, kind, txn, ledger))

    for _ in range(steps):
        chance = random.random()
        if chance < 0.2:
            add("D", None, random.randint(1, 3))
        elif chance < 0.6:
            add("D", random.choice(txns), random.randint(1, 4))
        elif chance < 0.9:
            add(random.choice("CA"), random.choice(txns))
        elif chance < 0.95:
            open_txns = {e.txn for e, f in _undecided(entries) if f is None and e.txn}
            for txn in sorted(open_txns):
                add("A", txn)
        elif entries:
            del entries[random.randrange(len(entries)) :]
            ledger, begun = ledger + 1, entries[-1].last + 1 if entries else 0
    return ReplayedLog(entries)


def _undecided(entries: list[Entry]) -> Iterable[tuple[Entry, str | None]]:
    log = ReplayedLog(entries)
    return ((e, f) for e, f in zip(entries, log.fates, strict=True) if e.kind == "D")
