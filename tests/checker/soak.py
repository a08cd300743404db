"""Clients and faults for as long as told: ``python -m tests.checker.soak MINUTES``.

One epoch after the other on fresh topics: clients work while servers are killed, connections are
cut and clocks jump; then everything is ended and read, and the checker and the audit look at it.
Prints, and writes to build/soak.json, how much was checked, what was broken, and what was wrong.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import msgspec

from engine import Engine
from tests.checker.audit import audit
from tests.checker.check import check
from tests.checker.cluster import Cluster
from tests.checker.delivery_checks import OPERATOR
from tests.checker.history import Fault
from tests.checker.http_target import HttpTarget
from tests.checker.product import Product
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
    broken_answers: list[str] = field(default_factory=list)
    anomalies: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        return sum(count for kind, count in self.faults.items() if kind.startswith("kill -9"))

    @property
    def operators(self) -> int:
        return sum(count for kind, count in self.faults.items() if kind.startswith(OPERATOR))

    def __str__(self) -> str:
        restarts = sorted(self.restarts) or [0.0]
        answers = ", ".join(f"{count} {kind}" for kind, count in sorted(self.answers.items()))
        return "\n".join(
            [
                f"{self.operations} operations checked in {self.seconds:.0f} s",
                f"{self.epochs} epochs, {self.audits} audits, seed {self.seed}; {answers}",
                (
                    f"{self.kills} x kill -9; a server answers after {_median(restarts):.2f} s"
                    f" (median), {restarts[-1]:.2f} s (longest)"
                ),
                f"{self.operators} operators' calls beside the clients",
                *(f"  {count:6} x {kind}" for kind, count in self.faults.most_common()),
                f"{len(self.broken_answers)} answers with status 500",
                *self.broken_answers[:5],
                f"{len(self.anomalies)} anomalies",
                *self.anomalies[:10],
            ]
        )


def _median(ordered: list[float]) -> float:
    return ordered[len(ordered) // 2]


def soak(
    seconds: float,
    seed: int,
    *,
    served: bool = True,
    epoch_seconds: float = EPOCH_SECONDS,
    epoch_kills: int = 0,
) -> Report:
    """Run for about ``seconds``, two epochs at least, each until it has killed ``epoch_kills``
    times, however long a busy machine takes for that. Every other epoch goes over HTTP, unless not
    ``served``."""
    report = Report(seed)
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Cluster.running())
        engine = cluster.engine()
        stack.callback(engine.close)
        product = None
        if served:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="txn-soak-")))
            product = stack.enter_context(Product.running(cluster, directory))
        while (left := seconds - (time.monotonic() - begun)) > 5 or report.epochs < 2:
            through = product if report.epochs % 2 else None
            epoch = Epoch(cluster, engine, through, report)
            epoch.run(max(5.0, min(epoch_seconds, left * 0.8)), kills=epoch_kills)
            if report.anomalies:
                break
    report.seconds = time.monotonic() - begun
    return report


class Epoch:
    """Work, break, end, check; on fresh topics, directly or through the product."""

    def __init__(
        self, cluster: Cluster, engine: Engine, product: Product | None, report: Report
    ) -> None:
        self._cluster = cluster
        self._product = product
        self._report = report
        number = report.epochs
        self._rng = Random(f"{report.seed}/{number}")
        self._kills = 0
        setting = furnish(engine, f"epoch-{number}")
        self._target = None
        if product is not None:
            product.await_ready()
            self._target = HttpTarget(product.url, product.token, setting.sidecars)
        self._run = Run(engine, setting, seed=report.seed + number, target=self._target)

    def run(self, seconds: float, *, kills: int = 0) -> None:
        run, report = self._run, self._report
        until = time.monotonic() + seconds
        # Behind a server the product's own workers do the work.
        with run.working(clients=4, workers=0 if self._target else 2):
            while (time.monotonic() < until or self._kills < kills) and not run.failures:
                run.history.wait_for(self._rng.randint(20, 300), seconds=2)
                run.operate()
                if self._rng.random() >= _QUIET:
                    self._break_something()
        if self._product is not None:
            self._product.await_ready()
        verdict = check(run.finish())
        report.epochs += 1
        report.operations += verdict.operations
        report.answers.update(verdict.answers)
        report.faults.update(verdict.faults)
        report.anomalies += map(str, verdict.anomalies)
        self._audit()
        if self._target is not None:
            report.broken_answers += self._target.broken
            if self._target.broken and self._product is not None:
                log = REPORT.with_name(f"soak-{report.seed}-{report.epochs}-web.log")
                log.parent.mkdir(exist_ok=True)
                log.write_bytes(self._product.log("web"))
            self._target.close()
        if report.anomalies:
            REPORT.parent.mkdir(exist_ok=True)
            run.history.write(REPORT.with_name(f"soak-{report.seed}-{report.epochs}.jsonl"))

    def _break_something(self) -> None:
        run, product = self._run, self._product
        faults = [
            (6, self._kill_servers),
            (2, run.cut_connections),
            (2, run.pass_a_deadline),
            (1, run.time_consumers_out),
        ]
        if product is not None:
            faults += [
                (1, lambda: self._kill_program("web")),
                (1, lambda: self._kill_program("worker")),
                (1, lambda: self._note("Valkey flushed", product.flush_valkey)),
                (1, lambda: self._note("kill -9 of valkey", product.kill_valkey)),
            ]
        [fault] = self._rng.choices(
            [fault for _, fault in faults], [weight for weight, _ in faults]
        )
        insisting(fault)

    def _kill_program(self, name: str) -> None:
        assert self._product is not None
        product = self._product
        self._note(f"kill -9 of {name}", lambda: product.kill(name))
        self._kills += 1

    def _note(self, kind: str, fault: Callable[[], None]) -> None:
        self._run.history.note(Fault(kind=kind))
        fault()

    def _kill_servers(self) -> None:
        """kill -9, a while without, and what comes up again is what the log says."""
        names = list(self._cluster.servers)
        victims = self._rng.choice([*([name] for name in names), names, names[1:]])
        for name in victims:
            self._run.history.note(Fault(kind=f"kill -9 of PostgreSQL: {name}"))
        self._cluster.kill(*victims)
        self._run.stopping.wait(self._rng.choice((0, 0, 0.3)))
        begun = time.monotonic()
        self._cluster.restart(*victims)
        self._kills += len(victims)
        self._report.restarts.append(time.monotonic() - begun)
        insisting(self._run.engine.take_snapshots)
        self._audit()

    def _audit(self) -> None:
        self._report.audits += 1
        self._report.anomalies += audit(self._cluster.coordinator_url, self._cluster.broker_urls)


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
