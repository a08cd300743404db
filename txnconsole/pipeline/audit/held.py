"""What transactions hold of subscriptions, according to the pending-ack log alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

#: Whose acknowledgements these are, and of what kind.
_KEY = ("broker", "log_id", "subscription", "tc_id", "sequence", "ack_type")
_RANGES = pa.schema(
    [
        *((name, pa.string()) for name in _KEY[:3]),
        ("tc_id", pa.int32()),
        ("sequence", pa.int64()),
        ("ack_type", pa.string()),
        ("lower", pa.int64()),
        ("upper", pa.int64()),
    ]
)
_SCHEMA = (
    "broker string, log_id string, subscription string, tc_id int, sequence bigint,"
    " ack_type string, lower bigint, upper bigint"
)


class Step(NamedTuple):
    """A record of the log: from here on the offsets in [lower, upper) are held, or not any more."""

    lower: int
    upper: int
    holds: bool


def held_by_log(steps: DataFrame, cursors: DataFrame) -> DataFrame:
    """The ranges that each transaction holds of each subscription in each partition.

    Offsets up to a mark-delete position do not count: the log is trimmed there.
    """
    place = list(_KEY[:3])
    return (
        steps.join(cursors.select(*place, "mark_delete"), place)
        .groupBy(*_KEY)
        .applyInArrow(_held_of_one, _SCHEMA)
    )


def ranges_held(steps: Sequence[Step], above: int) -> list[tuple[int, int]]:
    """Which offsets above one are held after all steps, as few ranges.

    For each offset the newest step that names it decides. So the steps are visited from the newest
    on, and each decides what is still undecided between its bounds. That costs about as much as
    sorting them.
    """
    clipped = [Step(max(lower, above + 1), upper, holds) for lower, upper, holds in steps]
    bounds = sorted({bound for step in clipped for bound in (step.lower, step.upper)})
    index = {bound: number for number, bound in enumerate(bounds)}
    held = [False] * len(bounds)
    onward = list(range(len(bounds) + 1))  # the first piece from here on that is still open

    def open_from(number: int) -> int:
        first = number
        while onward[first] != first:
            first = onward[first]
        while onward[number] != first:
            onward[number], number = first, onward[number]
        return first

    for lower, upper, holds in reversed(clipped):
        if lower >= upper:
            continue
        piece = open_from(index[lower])
        while piece < index[upper]:
            held[piece] = holds
            onward[piece] = piece + 1
            piece = open_from(piece)
    ranges: list[tuple[int, int]] = []
    for number, bound in enumerate(bounds[:-1]):
        if not held[number]:
            continue
        if ranges and ranges[-1][1] == bound:
            ranges[-1] = (ranges[-1][0], bounds[number + 1])
        else:
            ranges.append((bound, bounds[number + 1]))
    return ranges


def _held_of_one(steps: pa.Table) -> pa.Table:
    """The ranges of one transaction, subscription and partition, from its part of the log."""
    rows = steps.sort_by("step").to_pylist()
    ranges = ranges_held(
        [Step(row["lower"], row["upper"], row["op"] == "ACK") for row in rows],
        rows[0]["mark_delete"],
    )
    key = {name: rows[0][name] for name in _KEY}
    found = [key | {"lower": lower, "upper": upper} for lower, upper in ranges]
    return pa.Table.from_pylist(found, schema=_RANGES)
