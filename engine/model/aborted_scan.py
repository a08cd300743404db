"""Kafka's look-up of aborted transactions for a fetch, step by step (semantics §4.2).

The engine answers the same by one index range (``aborted_overlapping``); this follows the rule as
it is written, so that people can watch it and tests can compare the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from engine.model.partition import IndexedTxn


class Step(StrEnum):
    """What the scan makes of a row. RETURNED: the client must filter it. BEYOND: it began at or
    after the end of the fetch. STOPPED_*: the same, and no later row can have begun before it."""

    RETURNED = "returned"
    BEYOND = "beyond"
    STOPPED_RETURNED = "stopped_returned"
    STOPPED_BEYOND = "stopped_beyond"

    @property
    def is_returned(self) -> bool:
        return self in (Step.RETURNED, Step.STOPPED_RETURNED)


@dataclass(frozen=True, slots=True)
class ScannedRow:
    row: IndexedTxn
    step: Step


def scan(rows: Iterable[IndexedTxn], from_offset: int, upper: int) -> tuple[ScannedRow, ...]:
    """Go over the index for a fetch of [from, upper).

    Begins at the first row whose marker is not before the fetch; stops after the first whose last
    stable offset has reached its end: whoever aborts later began at or after that.

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
