"""Clients and faults for as long as told: ``python -m tests.checker.soak MINUTES``.

One epoch after the other on fresh topics: clients work while servers are killed, connections are
cut and clocks jump; then everything is ended and read, and the checker and the audit look at it.
Prints, and writes to build/soak.json, how much was checked, what was broken, and what was wrong.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import msgspec

from engine import Engine
from tests.checker.audit import audit
from tests.checker.check import check
from tests.checker.cluster import Cluster
from tests.checker.history import Fault
from tests.checker.run import Run, furnish, insisting

REPORT = Path("build/soak.json")
EPOCH_SECONDS = 45
#: Of a quarter of the time nothing is broken, so that there is progress to lose.
_QUIET = 0.25


@dataclass
class Report:
    """What a soak amounts to; times in seconds."""

    seed: int
    seconds: float = 0
    epochs: int = 0
    operations: int = 0
    audits: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    restarts: list[float] = field(default_factory=list)
    anomalies: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        return sum(count for kind, count in self.faults.items() if kind.startswith("kill -9"))

    def __str__(self) -> str:
        restarts = sorted(self.restarts) or [0.0]
        answers = ", ".join(f"{count} {kind}" for kind, count in sorted(self.answers.items()))
        return "\n".join(
            [
                f"{self.operations} operations checked in {self.seconds:.0f} s",
                f"{self.epochs} epochs, {self.audits} audits, seed {self.seed}; {answers}",
                (
                    f"{self.kills} x kill -9; a server answers again after {_median(restarts):.2f} s"
                    f" (median), {restarts[-1]:.2f} s (longest)"
                ),
                *(f"  {count:6} x {kind}" for kind, count in self.faults.most_common()),
                f"{len(self.anomalies)} anomalies",
                *self.anomalies[:10],
            ]
        )


def _median(ordered: list[float]) -> float:
    return ordered[len(ordered) // 2]


def soak(seconds: float, seed: int) -> Report:
    """Run for about ``seconds``, the end of the last epoch included."""
    report = Report(seed)
    begun = time.monotonic()
    with Cluster.running() as cluster:
        engine = cluster.engine()
        try:
            while (left := seconds - (time.monotonic() - begun)) > 5 or not report.epochs:
                epoch(cluster, engine, report, min(EPOCH_SECONDS, left * 0.8))
                if report.anomalies:
                    break
        finally:
            engine.close()
    report.seconds = time.monotonic() - begun
    return report


def epoch(cluster: Cluster, engine: Engine, report: Report, seconds: float) -> None:
    """Work, break, end, check."""
    number = report.epochs
    rng = Random(f"{report.seed}/{number}")
    run = Run(engine, furnish(engine, f"epoch-{number}"), seed=report.seed + number)
    until = time.monotonic() + seconds
    with run.working():
        while time.monotonic() < until and not run.failures:
            run.history.wait_for(rng.randint(20, 300), seconds=2)
            if rng.random() >= _QUIET:
                _break_something(cluster, run, rng, report)
    verdict = check(run.finish())
    report.epochs += 1
    report.operations += verdict.operations
    report.answers.update(verdict.answers)
    report.faults.update(verdict.faults)
    report.anomalies += map(str, verdict.anomalies)
    _audit(cluster, report)
    if report.anomalies:
        REPORT.parent.mkdir(exist_ok=True)
        run.history.write(REPORT.with_name(f"soak-{report.seed}-{number}.jsonl"))


def _break_something(cluster: Cluster, run: Run, rng: Random, report: Report) -> None:
    names = list(cluster.servers)
    victims = rng.choice([*([name] for name in names), names, names[1:]])
    [fault] = rng.choices(
        [
            lambda: _kill(cluster, run, rng, report, victims),
            run.cut_connections,
            run.pass_a_deadline,
            run.time_consumers_out,
        ],
        [6, 2, 2, 1],
    )
    insisting(fault)


def _kill(cluster: Cluster, run: Run, rng: Random, report: Report, victims: list[str]) -> None:
    """kill -9, a while without, and what comes up again is what the log says."""
    for name in victims:
        run.history.note(Fault(kind=f"kill -9 of {name}"))
    cluster.kill(*victims)
    run.stopping.wait(rng.choice((0, 0, 0.3)))
    begun = time.monotonic()
    cluster.restart(*victims)
    report.restarts.append(time.monotonic() - begun)
    insisting(run.engine.take_snapshots)
    _audit(cluster, report)


def _audit(cluster: Cluster, report: Report) -> None:
    report.audits += 1
    report.anomalies += audit(cluster.coordinator_url, cluster.broker_urls)


def main(arguments: list[str]) -> int:
    minutes = float(arguments[0]) if arguments else 1.0
    seed = int(arguments[1]) if len(arguments) > 1 else time.monotonic_ns() % 1_000_000
    report = soak(minutes * 60, seed)
    print(report)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    return 1 if report.anomalies else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
