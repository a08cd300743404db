"""Which databases belong together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from uuid import uuid4

import pytest

from engine import Engine, EngineSettings
from engine.model.errors import PartitionNotFound, PartitionUnavailable
from engine.model.topic_name import PartitionName
from engine.postgres.prepared import INT4, Prepared
from tests.engine.support import P0, P1, TOPIC, batch, make_topic
from tests.support.databases import Databases

_BACKEND = Prepared("backend_here", "SELECT pg_backend_pid()", {}, [INT4])


@pytest.fixture
def empty_url(databases: Databases) -> Iterator[str]:
    """An empty database on the same server."""
    with databases.empty("never_a_broker") as [url]:
        yield url


def engine_on(coordinator: str, *brokers: str) -> closing[Engine]:
    """An engine that was told other addresses."""
    urls = {f"broker-{n}": url for n, url in enumerate(brokers, 1)}
    return closing(Engine(coordinator, urls, EngineSettings(unsafe_databases=True)))


@pytest.mark.parametrize(
    "order", [(1, 0), (1,), (0, 0)], ids=["swapped", "first-gone", "one-twice"]
)
def test_another_brokers_database_is_not_to_be_believed(
    engine: Engine, databases: Databases, order: tuple[int, ...]
) -> None:
    """Else the next creation of each topic would make it anew, empty, on the wrong broker."""
    del engine
    addresses = [databases.broker_urls[at] for at in order]
    with engine_on(databases.coordinator_url, *addresses) as confused:
        confused.migrate()
        answers = confused.ping()
    wrong = [n for n, at in enumerate(order) if n != at]
    for n in wrong:
        assert answers.pop(f"broker-{n + 1}") == (
            f"broker-{n + 1} is not at its address: broker-{order[n] + 1} is."
            " BROKER_DATABASE_URLS must stay in their order."
        )
    assert set(answers.values()) == {None}


def test_an_empty_database_where_a_brokers_should_be_is_not_to_be_believed(
    engine: Engine, databases: Databases, empty_url: str
) -> None:
    """Programs that create their topics when they start would fill it again."""
    make_topic(engine, partitions=2)
    topic = engine.topics.get(TOPIC)
    lost = PartitionName(topic.name, topic.brokers.index("broker-2"))
    engine.produce(lost, batch("before"))
    with engine_on(databases.coordinator_url, databases.broker_urls[0], empty_url) as misled:
        misled.migrate()
        answers = misled.ping()
        assert answers.pop("broker-2") == (
            "broker-2 is not at its address: the database there has never been a broker's. If"
            " broker-2's own is lost for good, run manage.py migrate_engine --anew broker-2."
        )
        assert set(answers.values()) == {None}
        misled.migrate(anew=["broker-2"])
        assert set(misled.ping().values()) == {None}
        with pytest.raises(PartitionNotFound, match="to create its topic again, as it is, makes"):
            misled.log.status(lost)
        make_topic(misled, partitions=2)
        assert misled.produce(lost, batch("anew")).first_offset == 0


def test_brokers_of_other_coordinators_are_not_to_be_believed(
    engine: Engine, databases: Databases, empty_url: str
) -> None:
    """Coordinators that begin anew would hand out ids that have ended before; an installation that
    was told a broker of another one's would write into its partitions."""
    with engine_on(empty_url, *databases.broker_urls) as others:
        others.migrate(anew=["broker-1", "broker-2"])
        answers = others.ping()
    assert answers.pop("coordinator") is None
    for name in ("broker-1", "broker-2"):
        assert answers.pop(name) == (
            f"{name} is not at its address: a broker of other coordinators is. Mend"
            " BROKER_DATABASE_URLS or DATABASE_URL; coordinators that are lost come from a copy."
        )
    assert set(engine.ping().values()) == {None}


def test_a_process_that_was_told_wrong_addresses_makes_and_writes_nothing_there(
    engine: Engine, databases: Databases
) -> None:
    make_topic(engine, partitions=2)
    with engine_on(databases.coordinator_url, *reversed(databases.broker_urls)) as confused:
        make_topic(confused, partitions=2)  # As programs do that ensure their topics.
        for partition in (P0, P1):
            with pytest.raises(PartitionUnavailable, match="must stay in their order"):
                confused.produce(partition, batch("astray"))
    assert [engine.produce(partition, batch("a")).first_offset for partition in (P0, P1)] == [0, 0]


def test_a_process_of_other_coordinators_writes_nothing_into_partitions_of_the_same_ids(
    engine: Engine, databases: Databases, empty_url: str
) -> None:
    make_topic(engine)
    with engine_on(empty_url, *databases.broker_urls) as others:
        others.migrate(anew=["broker-1", "broker-2"])
        with pytest.raises(PartitionUnavailable, match="a broker of other coordinators is"):
            make_topic(others)
        with pytest.raises(PartitionUnavailable, match="a broker of other coordinators is"):
            others.produce(P0, batch("astray"))
    assert engine.produce(P0, batch("a")).first_offset == 0


def test_a_broker_that_was_asked_before_its_coordinators_is_compared_with_them_soon(
    engine: Engine, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.log.brokers._UNTIL_COMPARED", 0.0)
    with engine_on(databases.coordinator_url, *databases.broker_urls) as process:
        broker = process._brokers.get("broker-1")
        with broker.session():
            assert process._brokers.cluster_id is None
        process._brokers.cluster_id = uuid4()
        with pytest.raises(PartitionUnavailable, match="a broker of other coordinators is"):
            broker.ask(_BACKEND)
        with process.database.session():
            assert process._brokers.cluster_id is not None
        broker.ask(_BACKEND)
        assert broker.connections == 1


def test_a_start_that_stopped_while_a_broker_joined_is_finished_by_the_next_one(
    engine: Engine, databases: Databases, empty_url: str
) -> None:
    del engine
    addresses = (*databases.broker_urls, empty_url)
    with engine_on(databases.coordinator_url, *addresses) as grown:
        grown.migrate()
        with grown.database.session() as session:
            session.script("DELETE FROM coordinator.broker WHERE name = 'broker-3'")
        assert set(grown.ping().values()) == {None}
        grown.migrate()
        assert set(grown.ping().values()) == {None}
        with grown.database.session() as session:
            assert session.one("broker_known", name="broker-3") is not None


def test_a_broker_that_is_not_there_cannot_begin_anew(engine: Engine) -> None:
    with pytest.raises(PartitionUnavailable, match="broker-9"):
        engine.migrate(anew=["broker-9"])
