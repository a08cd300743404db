"""How a benchmark measures and tells: a table for people, JSON for programs."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

_RESULTS = Path(__file__).parent / "results"
_ROUNDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One target: what was measured, beside what, and the ratio that is asked for."""

    what: str
    measured: float
    beside: float
    ratio: float
    target: str
    met: bool


def alternate(*work: Callable[[], float]) -> list[float]:
    """Measure several things turn by turn, so that drift meets all alike; the median of each.

    Each callable does its share and answers units per second.
    """
    rounds = [[measure() for measure in work] for _ in range(_ROUNDS)]
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def per_second(work: Callable[[], object], *, calls: int, units: int) -> float:
    """Call ``work`` so often and answer how many units that was a second."""
    started = time.perf_counter()
    for _ in range(calls):
        work()
    return calls * units / (time.perf_counter() - started)


def at_least(what: str, measured: float, beside: float, target: float) -> Row:
    """A row that is met when ``measured / beside`` reaches ``target``."""
    ratio = measured / beside
    return Row(
        what=what,
        measured=measured,
        beside=beside,
        ratio=ratio,
        target=f">= {target:g}",
        met=ratio >= target,
    )


def report(name: str, rows: list[Row]) -> None:
    """Print the table and write ``results/<name>.json``."""
    width = max(len(row.what) for row in rows)
    print(f"{'':{width}}  {'measured/s':>12}  {'beside/s':>12}  {'ratio':>7}  target")
    for row in rows:
        print(
            f"{row.what:{width}}  {row.measured:12,.0f}  {row.beside:12,.0f}"
            f"  {row.ratio:7.2f}  {row.target}  {'' if row.met else 'missed'}"
        )
    _RESULTS.mkdir(exist_ok=True)
    target = _RESULTS / f"{name}.json"
    target.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
