"""Work on every broker, and what is remembered of where partitions are."""

from __future__ import annotations

import pytest
from billiard.exceptions import SoftTimeLimitExceeded
from psycopg.errors import DataCorrupted

from engine import Engine
from engine.log import brokers as log_brokers
from engine.log import catalog
from engine.log.brokers import Brokers
from engine.model.errors import BrokerUnavailable
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.postgres.database import Database
from engine.settings import EngineSettings
from tests.engine.support import batch


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


def test_a_process_that_sees_many_topics_come_and_go_remembers_only_some(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "_KEPT_TOPICS", 2)
    monkeypatch.setattr(log_brokers, "_KEPT_PARTITIONS", 2)
    names = [TopicName("public", "default", f"topic-{number}") for number in range(5)]
    places = set()
    for name in names:
        engine.topics.create(name, TopicSettings())
    for name in names:
        engine.produce(PartitionName(name, 0), batch("a"))
        places.add(engine.log.locate(PartitionName(name, 0)))
    assert len(places) == 5
    assert len(engine.topics._known) <= 2
    assert len(engine._brokers._partition_ids) <= 2


def test_a_worker_s_time_limit_ends_periodic_work(brokers: Brokers) -> None:
    asked: list[str] = []

    def work(database: Database) -> int:
        asked.append(database.name)
        raise SoftTimeLimitExceeded

    with pytest.raises(SoftTimeLimitExceeded):
        brokers.on_each(work)
    assert asked == ["broker-1"]
