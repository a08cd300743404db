from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import Any, cast

import psycopg
import pytest
from pyspark.sql import Row

from tests.support.databases import Databases
from tests.support.eventually import eventually
from txnconsole.pipeline.jobs.metrics import first_hour
from txnconsole.pipeline.metrics.figures import COLUMNS
from txnconsole.pipeline.metrics.store import newest_hour, replace_figures
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


def test_a_range_that_is_computed_again_is_replaced_and_what_is_around_it_stays(
    databases: Databases,
) -> None:
    url = databases.coordinator_url
    sketch = bytearray(b"\x00\xff\n")
    rows = [_row(minute, messages=minute, begin_commit=sketch) for minute in range(5)]
    assert replace_figures(url, rows, HOUR, HOUR + timedelta(hours=1)) == 5
    assert bytes(_all()[0].begin_commit) == bytes(sketch)
    since, until = HOUR + timedelta(minutes=1), HOUR + timedelta(minutes=4)
    for _ in range(2):
        assert replace_figures(url, [_row(2, messages=20)], since, until) == 1
    assert _known() == {0: 0, 2: 20, 4: 4}


def test_a_run_that_fails_leaves_what_was_known(databases: Databases) -> None:
    url = databases.coordinator_url
    until = HOUR + timedelta(hours=1)
    replace_figures(url, [_row(1, messages=1)], HOUR, until)
    with pytest.raises(psycopg.Error):
        replace_figures(url, [_row(1), _row(1)], HOUR, until)
    assert _known() == {1: 1}


def _while_it_stores(url: str, call: Callable[[int], object]) -> Iterator[Row]:
    """Rows of a run that is met by something else when it has stored the first."""
    yield _row(1, messages=10)
    with psycopg.connect(url) as connection:
        [(stores,)] = connection.execute(
            "SELECT pid FROM pg_locks JOIN pg_database d ON d.oid = database"
            " WHERE locktype = 'advisory' AND granted AND datname = current_database()"
        )
    call(stores)
    yield _row(2, messages=20)


def test_a_run_that_is_killed_while_it_stores_leaves_what_was_known(databases: Databases) -> None:
    url = databases.coordinator_url
    until = HOUR + timedelta(hours=1)
    replace_figures(url, [_row(1, messages=1)], HOUR, until)

    def kill(stores: int) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 10000)", [stores])

    with pytest.raises(psycopg.OperationalError):
        replace_figures(url, _while_it_stores(url, kill), HOUR, until)
    assert _known() == {1: 1}
    assert replace_figures(url, [_row(2, messages=2)], HOUR, until) == 1
    assert _known() == {2: 2}


def test_of_two_runs_at_once_the_later_ones_figures_stay_whole(databases: Databases) -> None:
    url = databases.coordinator_url
    until = HOUR + timedelta(hours=1)
    later = Thread(target=replace_figures, args=(url, [_row(2, messages=2)], HOUR, until))

    def meet(stores: int) -> None:
        later.start()
        waits = "SELECT %s = ANY (pg_blocking_pids(pid)) FROM pg_stat_activity"
        with psycopg.connect(url, autocommit=True) as connection:
            assert eventually(lambda: (True,) in connection.execute(waits, [stores]).fetchall())

    assert replace_figures(url, _while_it_stores(url, meet), HOUR, until) == 2
    later.join()
    assert _known() == {2: 2}


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


def test_the_newest_hour_is_that_of_an_hours_figure(databases: Databases) -> None:
    url = databases.coordinator_url
    assert newest_hour(url) is None
    rows = [_row(0, resolution="hour"), _row(30)]
    replace_figures(url, rows, HOUR, HOUR + timedelta(hours=1))
    assert newest_hour(url) == HOUR
