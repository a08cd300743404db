from __future__ import annotations

from contextlib import closing

import adbc_driver_postgresql
import psycopg
import pytest
from adbc_driver_manager import OperationalError
from psycopg.conninfo import make_conninfo

from engine import Engine
from tests.support import databases as support
from tests.support.eventually import eventually
from txnconsole.pipeline.broker import statements
from txnconsole.pipeline.broker.databases import DatabaseAway, Databases, OtherDatabase, Reading
from txnconsole.pipeline.broker.snapshot import Snapshot, ids_of
from txnconsole.pipeline.reader import TopicRead

_ONE, _TWO = "host=a dbname=x password=hush", "postgresql://u:hush@b/y"


def test_brokers_are_named_by_their_order_in_the_option_or_the_environment() -> None:
    environ = {"BROKER_DATABASE_URLS": f"{_TWO},", "DATABASE_URL": _ONE}
    assert Databases.of({}, environ).urls == {"broker-1": _TWO, "coordinator": _ONE}
    given = Databases.of({"brokers": f"{_ONE}, {_TWO}"}, environ, coordinator=False)
    assert given.urls == {"broker-1": _ONE, "broker-2": _TWO}
    assert Databases.of(given.options(), {}) == given


def test_of_several_hosts_the_one_is_read_that_may_be_written(
    served_databases: Databases,
) -> None:
    """Sessions that only read are none that libpq takes for "read-write"."""
    name, url = next(iter(served_databases.urls.items()))
    several = make_conninfo(url, target_session_attrs="read-write")
    with Databases({name: several}).planning(name) as connection:
        assert connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)


def test_passwords_are_neither_shown_nor_repeated() -> None:
    assert "hush" not in repr(Databases.of({"brokers": _ONE}, {}))
    with pytest.raises(ValueError, match="broker-1 is none of PostgreSQL's") as refused:
        Databases.of({"brokers": "sqlite:///hush"}, {})
    assert "hush" not in str(refused.value)


def test_a_snapshot_that_is_none_never_reaches_a_statement() -> None:
    assert ids_of(None) == {}
    for option in ("3", "{", '{"broker-1": "1\'; DROP TABLE x"}', '{"broker-1": ""}'):
        with pytest.raises(ValueError, match="snapshot"):
            ids_of(option)
    assert statements.adopt("00000003-0000001B-1").endswith("'00000003-0000001B-1'")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"order": "random", "brokers": _ONE}, "order is published or committed"),
        ({"order": "committed", "isolation": "read_uncommitted"}, "has a committed order"),
        ({"snapshot": "{}"}, "needs option brokers"),
        ({"subscription": "s", "startingOffsets": "latest"}, "says itself where to start"),
        ({"subscription": "s", "isolation": "read_uncommitted"}, "with isolation read_committed"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss is true or false"),
        ({"bytesPerTask": "0"}, "bytesPerTask is a whole number"),
        ({"subscription": ""}, "subscription is a name"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    options: dict[str, str], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BROKER_DATABASE_URLS", raising=False)
    server = {"url": "http://127.0.0.1:1", "token": "t", "topic": "public/default/flights"}
    with pytest.raises(ValueError, match=complaint):
        TopicRead.of(server | options, fails=True)


def test_a_database_that_is_away_is_named() -> None:
    away = Databases({"broker-2": "host=/nowhere user=none password=secret dbname=none"})
    for session in (away.planning, away.reading, away.writing):
        with (
            pytest.raises(DatabaseAway, match=r"^broker-2 cannot be reached.*/nowhere") as told,
            session("broker-2"),
        ):
            pass
        assert "secret" not in str(told.value)


def test_a_database_that_is_another_brokers_or_nobodys_is_not_read(
    databases: support.Databases,
) -> None:
    """One broker at two addresses would have its messages read twice."""
    first, _ = databases.broker_urls
    twice = Databases({"broker-1": first, "broker-2": first})
    with twice.planning("broker-1"):
        pass
    for read in (lambda: twice.connect("broker-2"), lambda: Snapshot.take(twice)):
        with pytest.raises(OtherDatabase, match="broker-2 is not at its address: broker-1 is"):
            read()
    with (
        databases.empty("never_a_broker") as [url],
        closing(Engine(databases.coordinator_url, {"broker-1": url})) as engine,
    ):
        engine.migrate()
        with pytest.raises(OtherDatabase, match="a database that has never been a broker's is"):
            Databases({"broker-1": url}).connect("broker-1")


def _session_of(reading: Reading) -> int:
    [pid] = reading.batches("SELECT pg_backend_pid() AS pid").read_all()["pid"].to_pylist()
    return int(pid)


def test_each_reading_has_a_session_of_its_own_and_ends_it(served_databases: Databases) -> None:
    with served_databases.reading("broker-1") as one, served_databases.reading("broker-1") as other:
        pids = {_session_of(one), _session_of(other)}
    with served_databases.reading("broker-1") as last:
        pids.add(_session_of(last))
    assert len(pids) == 3
    asked = "SELECT 1 FROM pg_stat_activity WHERE pid = ANY(%s)"
    with served_databases.connect("broker-1") as session:
        assert eventually(lambda: not session.execute(asked, [list(pids)]).fetchall())


def test_a_reading_after_its_database_has_cut_off_another_begins_anew(
    served_databases: Databases,
) -> None:
    with served_databases.reading("broker-1") as reading:
        with psycopg.connect(served_databases.urls["broker-1"]) as owner:
            owner.execute("SELECT pg_terminate_backend(%s)", [_session_of(reading)])
        with pytest.raises(OperationalError, match="terminat"):
            _session_of(reading)
    with served_databases.reading("broker-1") as reading:
        assert _session_of(reading)


def test_a_reading_asks_for_the_types_of_its_database_once_in_a_process(
    served_databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served_databases.reading("broker-1"):
        pass
    monkeypatch.setattr(adbc_driver_postgresql, "connect", None)
    with served_databases.reading("broker-1") as reading:
        assert _session_of(reading)
