"""Signs of trouble that no other question asks about: how transactions have ended lately, which
coordinators are recovering, which snapshots are late, and which dead letters have nowhere to go.
The work is bounded, whatever the history.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain

from engine.inspect.reading import Reading
from engine.log.catalog import Catalog
from engine.log.rows import log_of, subscription_of
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_status import TxnStatus
from engine.postgres.database import Database

#: How many of the newest ends are looked at.
ENDS = 5_000
#: How many subscriptions of each broker are looked at, and how many dead letters of each.
_SUBSCRIPTIONS = 1_000
_LETTERS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentEnds:
    """How many of the transactions that ended lately have committed, and aborted."""

    committed: int
    aborted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LateSnapshot:
    """A partition whose buffer has changed since its newest snapshot. The age is that of the
    snapshot or, when there is none, of the partition."""

    partition: PartitionName
    age_ms: int
    changes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LateSnapshots:
    """Late snapshots, the oldest first, and brokers that did not answer, and why."""

    late: tuple[LateSnapshot, ...]
    unavailable: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StrandedLetters:
    """Dead letters of a subscription that wait because their topic has been deleted. ``letters``:
    how many on each broker, of which at most a hundred are counted."""

    subscription: SubscriptionName
    dead_letter_topic: TopicName
    letters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AllStrandedLetters:
    """Stranded letters, the most first. ``complete``: all of those who wait were looked at."""

    stranded: tuple[StrandedLetters, ...]
    complete: bool


def recent_ends(database: Database, *, seconds: int, limit: int) -> RecentEnds:
    """How the newest ``limit`` of the transactions that ended within the last ``seconds`` ended.

    Raises:
        CoordinatorUnavailable: the database cannot be reached.
    """
    with database.session() as session:
        found = {
            row.status: int(row.count)
            for row in session.all("recent_ends", seconds=seconds, limit=limit)
        }
    return RecentEnds(
        committed=found.get(TxnStatus.COMMITTED, 0), aborted=found.get(TxnStatus.ABORTED, 0)
    )


def recovering(database: Database) -> dict[int, int]:
    """The coordinators whose recovery has begun and not ended, with the milliseconds since it
    began.

    Raises:
        CoordinatorUnavailable: the database cannot be reached.
    """
    with database.session() as session:
        return {row.tc_id: int(row.age_ms) for row in session.all("recovering")}


def late_snapshots(reading: Reading, limit: int) -> LateSnapshots:
    """The partitions of each broker whose changes have waited longest for a snapshot."""
    rows, unavailable = reading.on_each("late_snapshots", limit=limit)
    late = [
        LateSnapshot(partition=log_of(row), age_ms=int(row.age_ms), changes=int(row.changes))
        for found in rows.values()
        for row in found
    ]
    late.sort(key=lambda one: one.age_ms, reverse=True)
    return LateSnapshots(late=tuple(late), unavailable=unavailable)


def stranded_letters(reading: Reading, topics: Catalog) -> AllStrandedLetters:
    """The dead letters whose topic has been deleted, by subscription.

    Raises:
        CoordinatorUnavailable: the catalog cannot be reached.
    """
    rows, unavailable = reading.on_each("waiting_letters", limit=_SUBSCRIPTIONS, letters=_LETTERS)
    waiting: dict[tuple[SubscriptionName, TopicName], int] = defaultdict(int)
    for row in chain.from_iterable(rows.values()):
        target = TopicName.parse(row.dead_letter_topic)
        waiting[subscription_of(row), target] += row.letters
    absent = topics.absent({target for _, target in waiting}) if waiting else set()
    stranded = [
        StrandedLetters(subscription=name, dead_letter_topic=target, letters=letters)
        for (name, target), letters in waiting.items()
        if target in absent
    ]
    stranded.sort(key=lambda one: one.letters, reverse=True)
    complete = not unavailable and all(len(found) < _SUBSCRIPTIONS for found in rows.values())
    return AllStrandedLetters(stranded=tuple(stranded), complete=complete)
