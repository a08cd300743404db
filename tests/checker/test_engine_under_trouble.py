"""Random clients on the real engine, trouble on the network, the checker over all of it."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from random import Random

import pytest
from django.conf import settings

from engine import Engine
from engine.model.batch import OFFLOADED
from engine.postgres.database import Database
from tests.checker.audit import audit
from tests.checker.check import check
from tests.checker.delivery_checks import OPERATOR
from tests.checker.engine_target import Processes
from tests.checker.run import Run, furnish
from tests.engine.support import another, sql
from tests.support.databases import Databases

pytestmark = [pytest.mark.checker, pytest.mark.timeout(180)]
ROUNDS = 8
OPERATIONS_PER_ROUND = 300
OPERATORS_PER_ROUND = 4


@pytest.fixture(autouse=True)
def offload_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is told of a place for offloaded segments."""
    monkeypatch.setattr(settings, "OFFLOAD_DIR", str(tmp_path))


def _batches_in_files(broker: Database) -> int:
    statement = "SELECT count(*) AS batches FROM broker.entry WHERE substr(body, 1, 1) = %s"
    [row] = sql(broker, statement, OFFLOADED)
    batches: int = row.batches
    return batches


@pytest.mark.parametrize(("seed", "processes"), [(1, 1), (2, 3)])
def test_engines_under_trouble_keep_every_promise(
    seed: int, processes: int, engine: Engine, databases: Databases
) -> None:
    setting = furnish(engine)
    with ExitStack() as stack:
        others = [stack.enter_context(closing(another(engine))) for _ in range(processes - 1)]
        target = Processes([engine, *others], setting.sidecars, Random(seed))
        _keeps_every_promise(Run(engine, setting, seed=seed, target=target), databases)


def _keeps_every_promise(run: Run, databases: Databases) -> None:
    with run.working():
        for _ in range(ROUNDS):
            run.operations(OPERATIONS_PER_ROUND)
            run.rng.choice([run.pass_a_deadline, run.time_consumers_out, run.cut_connections])()
            for _ in range(OPERATORS_PER_ROUND):
                run.operate()
    verdict = check(run.finish())
    brokers = dict(zip(("broker-1", "broker-2"), databases.broker_urls, strict=True))
    assert not verdict.anomalies, str(verdict)
    assert audit(databases.coordinator_url, brokers) == []
    calls = {kind for kind in verdict.faults if kind.startswith(OPERATOR)}
    assert calls == {f"{OPERATOR}{name}" for name in run.operators.calls}
    for kind, answer in (
        ("end", "ok"),
        ("end", "fail"),
        ("ack", "fail"),
        ("produce", "fail"),
        ("produce", "info"),
        ("receive", "ok"),
        ("extend", "ok"),
    ):
        assert verdict.count(kind, answer), f"nothing was tried: {verdict.answers}"
