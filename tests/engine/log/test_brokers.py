"""Work on every broker, and what is remembered of where partitions are."""

from __future__ import annotations

import pytest
from billiard.exceptions import SoftTimeLimitExceeded
from psycopg.errors import DataCorrupted

from engine.log.brokers import Brokers
from engine.model.errors import BrokerUnavailable
from engine.postgres.database import Database
from engine.settings import EngineSettings


@pytest.fixture
def brokers() -> Brokers:
    return Brokers({f"broker-{number}": "" for number in (1, 2, 3)}, EngineSettings())


@pytest.mark.parametrize("damage", [BrokerUnavailable, DataCorrupted, KeyError])
def test_a_broker_that_fails_is_left_out_of_periodic_work(
    brokers: Brokers, damage: type[Exception]
) -> None:
    def work(database: Database) -> int:
        if database.name == "broker-1":
            raise damage
        return 10

    assert brokers.on_each(work) == 20


def test_a_worker_s_time_limit_ends_periodic_work(brokers: Brokers) -> None:
    asked: list[str] = []

    def work(database: Database) -> int:
        asked.append(database.name)
        raise SoftTimeLimitExceeded

    with pytest.raises(SoftTimeLimitExceeded):
        brokers.on_each(work)
    assert asked == ["broker-1"]
