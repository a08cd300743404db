"""Invariants of a sidecar log (semantics §4.3), from the same snapshot as its partition's.

Compaction takes entries out of the log, beginning with the transactions that ended first. So the
log has holes, and contains little that has ended. Entries over the budget are checked in later
rounds, when compaction has taken out those before them.
"""

from __future__ import annotations

from engine.inspect.checks import Check, check
from engine.inspect.log_checks import check_rebuild, wrong_heads
from engine.inspect.reading import View
from engine.postgres.session import Params


def check_sidecar(view: View, budget: int) -> list[Check]:
    """Check a partition's sidecar log: its head, markers and index rows, and that recovery would
    rebuild its state. No checks when the partition has no sidecar log."""
    log = view.sidecar()
    if log is None:
        return []
    return [
        *_check_rows(view, log, budget),
        check_rebuild(log, budget, name="sidecar_snapshot_and_log"),
    ]


def check_sidecar_index(view: View, budget: int) -> list[Check]:
    """As :func:`check_sidecar`, without rebuilding the state."""
    log = view.sidecar()
    return [] if log is None else _check_rows(view, log, budget)


def _check_rows(view: View, log: View, budget: int) -> list[Check]:
    window = log.one("log_window", from_offset=0, limit=budget)
    last = int(window.last_offset) if window else -1
    whole = window is None or window.entries < budget
    span: Params = {"from_offset": 0, "to_offset": last}
    more = None if whole else f"more than {budget} entries; the oldest were looked at"
    subject = str(view.partition)
    heads, markers, damaged, odd, unindexed = log.together(
        ("head_and_ongoing", {}),
        ("odd_markers", span),
        ("damaged_batches", span),
        ("odd_sidecar_rows", {**span, "home_id": view.partition_id}),
        ("unindexed_markers", span),
    )
    return [
        check(1, "sidecar_head", subject, wrong_heads(heads)),
        check(2, "sidecar_markers", subject, markers, skipped=more),
        check(3, "sidecar_batches", subject, damaged, skipped=more),
        check(6, "sidecar_index", subject, [*odd, *unindexed], skipped=more),
    ]
