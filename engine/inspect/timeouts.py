"""How long transactions take, by owner, from a bounded sample of those that ended last."""

from __future__ import annotations

from engine.model.timeout_advice import Advice, Durations, advise
from engine.postgres.database import Database
from engine.postgres.session import Row

#: How many of the transactions that ended last are looked at, and how many owners are told.
SAMPLE = 5_000
OWNERS = 50


def timeout_advice(database: Database, *, max_timeout_ms: int) -> tuple[Advice, ...]:
    """Advice for each owner of the sample, the busiest first.

    Raises:
        CoordinatorUnavailable: the coordinators' database cannot be read.
    """
    with database.session() as session:
        found = session.all("durations_by_owner", sample=SAMPLE, limit=OWNERS)
    return tuple(advise(_durations(row), max_timeout_ms=max_timeout_ms) for row in found)


def _durations(row: Row) -> Durations:
    return Durations(
        owner=row.owner,
        transactions=row.transactions,
        timed_out=row.timed_out,
        p50_ms=row.p50_ms,
        p99_ms=row.p99_ms,
        longest_ms=row.longest_ms,
        shortest_timeout_ms=row.shortest_timeout_ms,
        longest_timeout_ms=row.longest_timeout_ms,
        wasted_ms=row.wasted_ms,
        since=row.since,
        until=row.until,
    )
