"""The pipeline's statements read what they answer, whatever the length of the log."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from engine import Engine
from engine.log.brokers import Location
from tests.engine.support import P0, autovacuum_off, broker_sql, make_topic
from tests.support import databases as support
from txnconsole.pipeline.broker import statements
from txnconsole.pipeline.broker.databases import Databases
from txnconsole.pipeline.filters import FIRST_TIME, LAST_TIME

pytestmark = pytest.mark.plans

#: Ten offsets each: five of a transaction, four outside, the marker; every fifth aborted.
_FILL = (
    """
    INSERT INTO broker.entry
    SELECT %s, n, n, 1, (CASE WHEN n %% 10 < 9 THEN 'D' WHEN n / 10 %% 5 = 0 THEN 'A' ELSE 'C' END)
        ::"char", CASE WHEN n %% 2 = 0 OR n %% 10 = 9 THEN 0 END,
        CASE WHEN n %% 2 = 0 OR n %% 10 = 9 THEN n / 10 END, NULL, clock_timestamp(), NULL,
        CASE WHEN n %% 10 < 9 THEN '\\x01'::bytea END
    FROM generate_series(0, 19999) n
    """,
    """
    INSERT INTO broker.txn_index
    SELECT %s, n + 9, n, n + 10, 1, 0, n / 10, n / 10 %% 5 = 0
    FROM generate_series(0, 19990, 10) n
    """,
)
#: What was in the tables when they were last counted: plans follow it until the next time.
_COUNTED = {
    "nothing": (),
    "a transaction of one entry": (
        """
        INSERT INTO broker.entry
        VALUES (0, 0, 0, 1, 'D', 0, 0, NULL, clock_timestamp(), NULL, '\\x01'::bytea)
        """,
        "INSERT INTO broker.txn_index VALUES (0, 1, 0, 2, 1, 0, 0, false)",
    ),
    "many entries and no transaction": (
        """
        INSERT INTO broker.entry
        SELECT 0, n, n, 1, 'D', NULL, NULL, NULL, clock_timestamp(), NULL, '\\x01'::bytea
        FROM generate_series(0, 19999) n
        """,
    ),
}


@pytest.mark.parametrize("counted", list(_COUNTED))
@pytest.mark.parametrize(
    ("name", "rows"),
    [("published", 80), ("readable", 80), ("sidecar", 90), ("raw_entries", 100), ("raw_index", 10)],
)
def test_a_range_in_a_long_log_costs_what_is_in_it(
    engine: Engine, databases: support.Databases, name: str, rows: int, counted: str
) -> None:
    make_topic(engine)
    place = engine.log.locate(P0)
    with autovacuum_off(place.database, "broker"):
        for statement in ("TRUNCATE broker.entry, broker.txn_index", *_COUNTED[counted]):
            broker_sql(engine, statement)
        for table in ("broker.entry", "broker.txn_index"):
            broker_sql(engine, f"ANALYZE {table}")
        broker_sql(engine, "TRUNCATE broker.entry, broker.txn_index")
        for statement in _FILL:
            broker_sql(engine, statement, place.partition_id)
        _check_cost(databases, place, name, rows)


def _check_cost(databases: support.Databases, place: Location, name: str, rows: int) -> None:
    numbers = dict.fromkeys(("side_id", "compacted_id"), -1) | {
        "log_id": place.partition_id,
        "log_start": 0,
        "lower": 15_000,
        "upper": 15_100,
        "committed": 1,
        "since": FIRST_TIME,
        "until": LAST_TIME,
    }
    found = Databases.of({"brokers": ",".join(databases.broker_urls)}, {})
    with found.planning(place.database.name) as session:
        before = _fetched(session)
        answered = session.execute(statements.complete(name, numbers).encode()).fetchall()
        read = _fetched(session) - before
    assert len(answered) == rows
    assert read < 400, f"{name} read {read} rows"


def _fetched(session: psycopg.Connection[Any]) -> int:
    """How many rows this transaction has read of the two long tables so far."""
    [(rows,)] = session.execute(
        "SELECT sum(coalesce(idx_tup_fetch, 0) + seq_tup_read) FROM pg_stat_xact_user_tables"
        " WHERE schemaname = 'broker' AND relname IN ('entry', 'txn_index')"
    ).fetchall()
    return int(rows)
