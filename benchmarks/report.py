"""How a benchmark measures and tells: a table for people, JSON for programs."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

_RESULTS = Path(__file__).parent / "results"
_ROUNDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One target: what was measured, beside what, and the ratio that is asked for.

    Both are units per second, or milliseconds where ``what`` says so.
    """

    what: str
    measured: float
    beside: float
    ratio: float
    target: str
    met: bool


def alternate(*work: Callable[[], float], rounds: int = _ROUNDS) -> list[float]:
    """Measure several things turn by turn, so that drift meets all alike; the median of each.

    Each callable does its share and answers units per second.
    """
    measured = [[measure() for measure in work] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*measured, strict=True)]


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


def within(what: str, measured: float, beside: float, target: float) -> Row:
    """A row of calls per second, met when ``measured`` is at most ``target`` times as many."""
    ratio = measured / beside
    return Row(
        what=what,
        measured=measured,
        beside=beside,
        ratio=ratio,
        target=f"<= {target:g}",
        met=ratio <= target,
    )


def at_most(what: str, measured: float, target: float) -> Row:
    """A row of milliseconds that is met when ``measured`` does not exceed ``target``."""
    return Row(
        what=what,
        measured=measured,
        beside=target,
        ratio=measured / target,
        target="<= 1",
        met=measured <= target,
    )


def report(name: str, rows: list[Row], *, load: tuple[float, float], keep: bool = True) -> None:
    """Print the table and, with ``keep``, write ``results/<name>.json``.

    ``load`` is the machine's before and after: on a busy one only ratios mean something. How fast
    it is now is told by a loop of Python's, since machines of one name differ by five times.
    """
    loop = _loop_seconds()
    width = max(len(row.what) for row in rows)
    print(f"{'':{width}}  {'measured':>12}  {'beside':>12}  {'ratio':>7}  {'target':7}")
    for row in rows:
        print(
            f"{row.what:{width}}  {row.measured:12,.1f}  {row.beside:12,.1f}"
            f"  {row.ratio:7.2f}  {row.target:7}  {'met' if row.met else 'missed'}"
        )
    print(
        f"load {load[0]:.1f} before, {load[1]:.1f} after, on {os.cpu_count()} CPUs; a loop of 10^7"
        f" turns of Python's takes {loop:.2f} s"
    )
    if not keep:
        return
    _RESULTS.mkdir(exist_ok=True)
    found = {
        "load": load,
        "cpus": os.cpu_count(),
        "loop_seconds": loop,
        "rows": [asdict(row) for row in rows],
    }
    (_RESULTS / f"{name}.json").write_text(json.dumps(found, indent=2) + "\n")


def _loop_seconds() -> float:
    started = time.perf_counter()
    for _ in range(10_000_000):
        pass
    return time.perf_counter() - started
