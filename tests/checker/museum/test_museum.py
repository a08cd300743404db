"""Every bug of the museum is found; one that is not fails its test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from engine import Engine, EngineSettings
from tests.checker.audit import audit
from tests.checker.check import check
from tests.checker.model_target import ModelTarget
from tests.checker.museum.coordinators import COORDINATORS
from tests.checker.museum.partitions import PARTITIONS
from tests.checker.museum.planting import Bug
from tests.checker.museum.simulated import SIMULATED
from tests.checker.museum.subscriptions import SUBSCRIPTIONS
from tests.checker.network import Trouble
from tests.checker.run import Run, furnish
from tests.checker.simulation import simulate
from tests.engine.support import sql
from tests.support.databases import Databases

PLANTED = (*PARTITIONS, *COORDINATORS, *SUBSCRIPTIONS)
#: More of what is rare in life: requests that come late or twice.
HARSH = Trouble(lost=0.03, unanswered=0.04, doubled=0.1, late=0.2, dawdling=0.3)
ROUNDS = 12
#: How many rounds each attempt has: most bugs are seen in the first few.
ATTEMPTS = (3, 3, 6, 6, *[ROUNDS] * 28)
OPERATIONS_PER_ROUND = 50
SEEDS = 60


def test_the_museum_has_thirty_pieces_with_names_of_their_own() -> None:
    assert len(PLANTED) + len(SIMULATED) >= 30
    assert len({bug.name for bug in PLANTED}) == len(PLANTED)


@pytest.mark.parametrize("model", SIMULATED, ids=lambda model: model.__name__)
def test_a_bug_in_the_model_is_found(model: type[ModelTarget]) -> None:
    assert any(check(simulate(seed, steps=300, make=model)).anomalies for seed in range(SEEDS))


@pytest.mark.checker
@pytest.mark.timeout(600)
@pytest.mark.parametrize("bug", PLANTED, ids=str)
def test_a_bug_in_the_engine_is_found(bug: Bug, databases: Databases, tmp_path: Path) -> None:
    for seed, rounds in enumerate(ATTEMPTS):
        with fresh(databases, tmp_path) as engine, bug.plant(engine):
            found = symptoms(engine, databases, seed, bug.operators, rounds)
        if found:
            print(f"{bug}: {found}")  # pytest -rA shows how each was found
            return
    pytest.fail(f"{bug.name} ({bug.seen}) has not been found")


@contextlib.contextmanager
def fresh(databases: Databases, offloaded: Path) -> Iterator[Engine]:
    """An engine on databases without any row; one that remembers former ones would be wrong. One
    coordinator, so that transactions meet."""
    databases.clean()
    brokers = broker_urls(databases)
    settings = EngineSettings(coordinators=1, offload_directory=str(offloaded))
    engine = Engine(databases.coordinator_url, brokers, settings)
    sql(engine.database, "DELETE FROM coordinator.coordinator WHERE tc_id > 0")
    yield engine
    engine.close()


def broker_urls(databases: Databases) -> dict[str, str]:
    return {f"broker-{number}": url for number, url in enumerate(databases.broker_urls, 1)}


@pytest.mark.checker
@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(3))
def test_an_engine_without_a_bug_shows_no_symptom(
    seed: int, databases: Databases, tmp_path: Path
) -> None:
    operators = {name for bug in PLANTED for name in bug.operators}
    with fresh(databases, tmp_path) as engine:
        assert symptoms(engine, databases, seed, sorted(operators)) == set()


def symptoms(
    engine: Engine,
    databases: Databases,
    seed: int,
    operators: Sequence[str],
    rounds: int = ROUNDS,
) -> set[str]:
    """What the checker and the audit say of a run."""
    run = Run(engine, furnish(engine), seed=seed, trouble=HARSH)
    found = set()
    try:
        with run.working(clients=4, workers=2):
            for _ in range(rounds):
                run.operations(OPERATIONS_PER_ROUND)
                run.rng.choice(
                    [
                        run.pass_a_deadline,
                        run.time_consumers_out,
                        run.lose_state,
                        run.lose_a_broker,
                    ]
                )()
                for name in operators:
                    run.operate(name)
        run.finish()
    except Exception as failure:
        # A bug may well break the run itself.
        found.add(f"{type(failure).__name__}: {failure}")
    found |= {str(anomaly.kind) for anomaly in check(run.history).anomalies}
    wrong = audit(databases.coordinator_url, broker_urls(databases))
    return found | {" ".join(row.split(": ")[:2]) for row in wrong}
