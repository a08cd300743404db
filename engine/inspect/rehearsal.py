"""Rehearsal: what a recovery would do if the database restarted now, without doing it (semantics
§5).

The estimate is made from recoveries that were measured on the same broker, and leans on what is
usual (docs/measurements.md) where those are none, or too much alike to tell what an entry costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.buffer.recovery import newest_good
from engine.inspect.reading import Reading, View
from engine.model.topic_name import PartitionName
from engine.postgres.session import Row

#: Entries counted at most.
_COUNTED = 100_000
#: What a recovery usually takes, in milliseconds: at least, and more for each entry.
_USUAL_MS = 10.0
_USUAL_MS_PER_ENTRY = 0.002
#: That counts for as much as two recoveries that differ by so many entries.
_USUAL_SPREAD = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What a recovery of a partition would read.

    For a sidecar-buffered partition, entries, bytes and transactions are those of both its logs
    together, so that a transaction that is in both counts twice; positions are those of its own
    log.

    Attributes:
        snapshot_position: of the newest snapshot that can be read; None: recovery would read the
            whole log.
        unreadable_snapshots: positions of newer snapshots, which would be passed over.
        exact: False when there is more to read than was counted, and it takes longer than the
            estimate says.
        measured_recoveries: on how many of this broker's the estimate stands.
    """

    partition: PartitionName
    snapshot_position: int | None
    unreadable_snapshots: tuple[int, ...]
    last_offset: int
    entries: int
    bytes: int
    transactions: int
    exact: bool
    measured_recoveries: int
    estimated_ms: float


def rehearse(reading: Reading, partition: PartitionName) -> Rehearsal:
    """Look at what a recovery would read.

    Raises:
        TopicNotFound, PartitionNotFound: there is no such partition.
        PartitionUnavailable: recovering, or its broker cannot be reached.
    """
    with reading.view(partition) as view:
        own = _of_log(view)
        log = view.sidecar()
        return own if log is None else _together(own, _of_log(log))


def _of_log(view: View) -> Rehearsal:
    snapshots = view.all("snapshots")
    snapshot, good = newest_good(snapshots, view.partition)
    distance = view.one("distance", position=snapshot.position, limit=_COUNTED)
    measured = view.session.all("recoveries")
    entries = int(distance.entries) if distance else 0
    return Rehearsal(
        partition=view.partition,
        snapshot_position=None if good is None else snapshot.position,
        unreadable_snapshots=tuple(
            row.position for row in snapshots if good is None or row.position > good.position
        ),
        last_offset=view.last_offset,
        entries=entries,
        bytes=int(distance.bytes) if distance else 0,
        transactions=int(distance.transactions) if distance else 0,
        exact=entries < _COUNTED,
        measured_recoveries=len(measured),
        estimated_ms=estimate(measured, entries),
    )


def _together(own: Rehearsal, log: Rehearsal) -> Rehearsal:
    """A recovery rebuilds the partition, then its sidecar log."""
    return replace(
        own,
        entries=own.entries + log.entries,
        bytes=own.bytes + log.bytes,
        transactions=own.transactions + log.transactions,
        exact=own.exact and log.exact,
        estimated_ms=own.estimated_ms + log.estimated_ms,
    )


def estimate(measured: Sequence[Row], entries: int) -> float:
    """Estimate the duration of a recovery, in milliseconds, by least squares over (entries,
    duration): a fixed time, and a time for each entry. Never below the shortest that was
    measured."""
    if not measured:
        return _USUAL_MS + _USUAL_MS_PER_ENTRY * entries
    mean_entries = sum(row.entries for row in measured) / len(measured)
    mean_ms = sum(row.duration_ms for row in measured) / len(measured)
    usual = _USUAL_SPREAD**2 / 2
    spread = sum((row.entries - mean_entries) ** 2 for row in measured) + usual
    together = sum((row.entries - mean_entries) * (row.duration_ms - mean_ms) for row in measured)
    per_entry = max(0.0, (together + usual * _USUAL_MS_PER_ENTRY) / spread)
    shortest = min(row.duration_ms for row in measured)
    return float(max(shortest, mean_ms + per_entry * (entries - mean_entries)))
