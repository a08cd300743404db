"""The logs that the brokers have, and the sizes of their segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

import psycopg

from txnconsole.pipeline.broker import statements
from txnconsole.pipeline.broker.splitting import Stretch

#: Which part of a partition a log is. The compacted part of a sidecar has the offsets that messages
#: have in the partition; a sidecar has offsets of its own.
PARTITION, SIDECAR, COMPACTED = "partition", "sidecar", "compacted"


@dataclass(frozen=True, slots=True)
class Log:
    """A log as it was when its broker was asked.

    Attributes:
        log_id: its key on its broker.
        topic, number: the partition that it is, or is part of.
        part: ``partition``, ``sidecar`` or ``compacted``.
        lower, upper: its offsets, half open.
        stable: where READ_COMMITTED ends, exclusive.
        recovering: its broker has crashed, and nobody has used the log since.
        made_at: when its partition was made, by its broker's clock.
        ledger: the newest of its ledgers; None while it recovers.
    """

    broker: str
    log_id: int
    topic: str
    number: int
    part: str
    buffer: str
    lower: int
    upper: int
    stable: int
    online: bool
    recovering: bool
    made_at: datetime
    ledger: int | None


def logs_of(connection: psycopg.Connection[Any], broker: str, pattern: str) -> list[Log]:
    """The logs of topics that match a pattern (``*``, ``?``, ``[…]``), ordered by topic and
    number.

    System topics, ``tenant/namespace/__…``, match only a pattern that has the ``__`` in it.
    """
    found: list[Log] = []
    rows = connection.execute(statements.named("logs")).fetchall()
    homes: dict[int, Log] = {}
    for row in sorted(rows, key=lambda row: row.sidecar_of is not None):
        if not matches(row.topic, pattern):
            continue
        log = _log(connection, broker, row)
        found.append(log)
        if row.sidecar_of is None:
            homes[row.partition_id] = log
        elif (home := homes.get(row.sidecar_of)) is not None:
            found.append(replace(home, log_id=row.compacted_id, part=COMPACTED))
    return sorted(found, key=lambda log: (log.topic, log.number, log.part != PARTITION, log.part))


def matches(topic: str, pattern: str) -> bool:
    """Whether a topic matches a pattern; a system topic only one that has ``/__`` in it."""
    if topic.rpartition("/")[2].startswith("__") and "/__" not in pattern:
        return False
    return fnmatchcase(topic, pattern)


def _log(connection: psycopg.Connection[Any], broker: str, row: Any) -> Log:
    upper, stable = row.next_offset, row.stable_end
    if upper is None:
        ended = connection.execute(statements.named("log_end"), {"log_id": row.partition_id})
        [(upper,)] = ended.fetchall()
        stable = upper
    return Log(
        broker=broker,
        log_id=row.partition_id,
        topic=row.topic,
        number=row.number,
        part=PARTITION if row.sidecar_of is None else SIDECAR,
        buffer=row.buffer,
        lower=row.log_start_offset,
        upper=upper,
        stable=stable,
        online=row.online,
        recovering=row.next_offset is None,
        made_at=row.created_at,
        ledger=row.ledger_id,
    )


def logs_since(
    connection: psycopg.Connection[Any], logs: Sequence[Log], since: datetime
) -> Iterator[Log]:
    """Logs without the segments that were sealed before a moment, except for segments with entries
    of transactions that were open then.

    A log without known segments is left whole.
    """
    asked = {"log_ids": [log.log_id for log in logs], "since": since}
    rows = connection.execute(statements.named("entries_since"), asked).fetchall()
    lower = {row.partition_id: row.lower for row in rows}
    for log in logs:
        yield replace(log, lower=max(log.lower, lower.get(log.log_id, log.lower)))


def opened_at(connection: psycopg.Connection[Any], log: Log, after: int) -> int | None:
    """The lowest offset at which a ledger begins that is newer than ``after``; None when there is
    none."""
    asked = {"log_id": log.log_id, "after": after}
    [(began,)] = connection.execute(statements.named("opened_at"), asked).fetchall()
    return None if began is None else int(began)


def stretches_of(
    connection: psycopg.Connection[Any], logs: Sequence[Log], *, weight: str
) -> Iterator[tuple[Log, list[Stretch]]]:
    """Each log's segments with their weight, ``bytes`` or ``entries``.

    Offsets without a known segment (the compacted part of a sidecar, a log that recovers) weigh
    nothing.
    """
    rows = connection.execute(
        statements.named("segments"), {"log_ids": [log.log_id for log in logs]}
    ).fetchall()
    segments: dict[int, list[Stretch]] = {}
    for row in rows:
        upper = row.first_offset if row.upper is None else row.upper
        stretch = Stretch(row.first_offset, upper, getattr(row, weight))
        segments.setdefault(row.partition_id, []).append(stretch)
    for log in logs:
        known = [piece.within(log.lower, log.upper) for piece in segments.get(log.log_id, ())]
        yield log, _whole(log, [piece for piece in known if piece.upper > piece.lower])


def _whole(log: Log, stretches: list[Stretch]) -> list[Stretch]:
    """The stretches with the gaps between them filled and without what an earlier one has, so that
    they cover all of the log's offsets, each once: whatever is recorded of segments, nothing is
    left out or read twice."""
    whole: list[Stretch] = []
    reached = log.lower
    for stretch in stretches:
        if stretch.lower > reached:
            whole.append(Stretch(reached, stretch.lower, 0))
        if stretch.upper > reached:
            whole.append(stretch.within(reached, stretch.upper))
            reached = stretch.upper
    if log.upper > reached:
        whole.append(Stretch(reached, log.upper, 0))
    return whole
