"""Kafka's look-up of the aborted transactions for a fetch, step by step (semantics §4.2).

The engine finds the same with one index range (``aborted_overlapping``). This follows the rule as
it is written, so that people can watch it step by step and tests can compare the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from engine.model.partition import IndexedTxn


class Step(StrEnum):
    """What the scan decides on a row.

    RETURNED: the client must filter this transaction. BEYOND: it began at or after the end of the
    fetch. STOPPED_*: the same, and the scan stops, since no later row can have begun before the
    end.
    """

    RETURNED = "returned"
    BEYOND = "beyond"
    STOPPED_RETURNED = "stopped_returned"
    STOPPED_BEYOND = "stopped_beyond"

    @property
    def is_returned(self) -> bool:
        """Whether the row is part of the answer."""
        return self in (Step.RETURNED, Step.STOPPED_RETURNED)


@dataclass(frozen=True, slots=True)
class ScannedRow:
    """A row of the index that the scan has looked at, and its decision."""

    row: IndexedTxn
    step: Step


def scan(rows: Iterable[IndexedTxn], from_offset: int, upper: int) -> tuple[ScannedRow, ...]:
    """Scan the index for a fetch of the offsets [from, upper).

    It begins at the first row whose marker is not before the fetch. It stops after the first row
    whose last stable offset is at or after the end of the fetch: transactions that abort later
    began at or after that offset.

    Args:
        rows: the index in the order of the markers.
    """
    scanned: list[ScannedRow] = []
    for row in rows:
        if row.last_offset < from_offset:
            continue
        returned = row.first_offset < upper
        if row.last_stable_offset >= upper:
            step = Step.STOPPED_RETURNED if returned else Step.STOPPED_BEYOND
            scanned.append(ScannedRow(row, step))
            break
        scanned.append(ScannedRow(row, Step.RETURNED if returned else Step.BEYOND))
    return tuple(scanned)
