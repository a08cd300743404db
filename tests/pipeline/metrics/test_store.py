from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import Any, cast

import psycopg
import pytest
from pyspark.sql import Row, SparkSession

from tests.support.databases import Databases
from tests.support.eventually import eventually
from txnconsole.pipeline.broker import databases as pipeline
from txnconsole.pipeline.broker.snapshot import Snapshot
from txnconsole.pipeline.jobs.metrics import compute, first_hour
from txnconsole.pipeline.jobs.run import Run
from txnconsole.pipeline.metrics.figures import COLUMNS
from txnconsole.pipeline.metrics.store import alone, newest_hour, replace_figures
from txnconsole.runs.models import Figure

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = datetime(2026, 1, 31, 12, tzinfo=UTC)


def _row(minute: int, **values: object) -> Row:
    sums = dict.fromkeys(("messages", "batches", "bytes", "committed", "aborted", "held_ms"), 0)
    given: Mapping[str, Any] = {
        "resolution": "minute",
        "at": HOUR + timedelta(minutes=minute),
        "dimension": "topic",
        "name": "a/b/c",
    }
    return cast("Row", dict.fromkeys(COLUMNS) | sums | given | values)


def _known() -> dict[int, int]:
    return {(figure.at - HOUR).total_seconds() // 60: figure.messages for figure in _all()}


def _all() -> list[Figure]:
    return list(Figure.objects.order_by("at"))


@pytest.fixture
def session(databases: Databases) -> Iterator[psycopg.Connection[Any]]:
    with alone(databases.coordinator_url) as session:
        yield session


def test_a_range_that_is_computed_again_is_replaced_and_what_is_around_it_stays(
    session: psycopg.Connection[Any],
) -> None:
    sketch = bytearray(b"\x00\xff\n")
    rows = [_row(minute, messages=minute, begin_commit=sketch) for minute in range(5)]
    assert replace_figures(session, rows, HOUR, HOUR + timedelta(hours=1)) == 5
    assert bytes(_all()[0].begin_commit) == bytes(sketch)
    since, until = HOUR + timedelta(minutes=1), HOUR + timedelta(minutes=4)
    for _ in range(2):
        assert replace_figures(session, [_row(2, messages=20)], since, until) == 1
    assert _known() == {0: 0, 2: 20, 4: 4}


def test_a_run_that_fails_leaves_what_was_known(session: psycopg.Connection[Any]) -> None:
    until = HOUR + timedelta(hours=1)
    replace_figures(session, [_row(1, messages=1)], HOUR, until)
    with pytest.raises(psycopg.Error):
        replace_figures(session, [_row(1), _row(1)], HOUR, until)
    assert _known() == {1: 1}


def _kill(url: str, session: psycopg.Connection[Any]) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 10000)", [session.info.backend_pid])


def test_a_run_that_is_killed_while_it_stores_leaves_what_was_known(databases: Databases) -> None:
    url = databases.coordinator_url
    until = HOUR + timedelta(hours=1)

    def rows(session: psycopg.Connection[Any]) -> Iterator[Row]:
        yield _row(1, messages=10)
        _kill(url, session)
        yield _row(2, messages=20)

    with alone(url) as first:
        replace_figures(first, [_row(1, messages=1)], HOUR, until)
        with pytest.raises(psycopg.OperationalError):
            replace_figures(first, rows(first), HOUR, until)
    assert _known() == {1: 1}
    with alone(url) as second:
        assert replace_figures(second, [_row(2, messages=2)], HOUR, until) == 1
    assert _known() == {2: 2}


def test_a_run_that_is_not_alone_any_more_stores_nothing(databases: Databases) -> None:
    url = databases.coordinator_url
    with alone(url) as earlier:
        _kill(url, earlier)
        with alone(url) as later:
            replace_figures(later, [_row(2, messages=2)], HOUR, HOUR + timedelta(hours=1))
        with pytest.raises(psycopg.OperationalError):
            replace_figures(earlier, [_row(1, messages=1)], HOUR, HOUR + timedelta(hours=1))
    assert _known() == {2: 2}


def test_of_two_runs_at_once_the_second_reads_the_logs_when_the_first_has_stored(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = databases.coordinator_url
    found = pipeline.Databases.of({"coordinator": url}, {})
    known_when_it_read: list[dict[int, int]] = []

    class Read(Exception):
        """The second run has come to reading the logs."""

    def take(_: pipeline.Databases) -> Snapshot:
        known_when_it_read.append(_known())
        raise Read

    monkeypatch.setattr(Snapshot, "take", take)

    def run() -> None:
        with pytest.raises(Read):
            compute(cast("SparkSession", None), found, Run("metrics", supervised=False))

    second = Thread(target=run)
    with alone(url) as first:
        second.start()
        waits = "SELECT %s = ANY (pg_blocking_pids(pid)) FROM pg_stat_activity"
        with psycopg.connect(url, autocommit=True) as connection:
            pid = first.info.backend_pid
            assert eventually(lambda: (True,) in connection.execute(waits, [pid]).fetchall())
        replace_figures(first, [_row(1, messages=1)], HOUR, HOUR + timedelta(hours=1))
    second.join()
    assert known_when_it_read == [{1: 1}]


def test_a_run_goes_on_where_the_last_one_was_and_computes_the_hour_before_anew() -> None:
    until = datetime(2026, 1, 31, 12, tzinfo=UTC)

    def since(hours: int | None, known: int | None) -> float:
        newest = None if known is None else until - timedelta(hours=known)
        return (until - first_hour(until, hours, newest)) / timedelta(hours=1)

    assert since(None, None) == 2
    assert since(None, 1) == since(None, 2) == 2
    assert since(None, 30) == 30
    assert since(None, 5000) == 7 * 24
    assert since(6, 30) == 6


def test_the_newest_hour_is_that_of_an_hours_figure(session: psycopg.Connection[Any]) -> None:
    assert newest_hour(session) is None
    rows = [_row(0, resolution="hour"), _row(30)]
    replace_figures(session, rows, HOUR, HOUR + timedelta(hours=1))
    assert newest_hour(session) == HOUR
