"""The pipeline's statements read what they answer, whatever the length of the log."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import psycopg
import pytest

from engine import Engine
from engine.log.brokers import Location
from engine.model.topic import BufferKind
from tests.engine.support import (
    P0,
    autovacuum_off,
    batch,
    broker_sql,
    commit,
    make_topic,
    open_txn,
)
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
#: A committed transaction whose 20 000 messages are in a sidecar log, at every other offset; behind
#: it another as long of which the log has nothing any more, in a segment of its own.
_FILL_SIDECAR = (
    """
    INSERT INTO broker.entry
    SELECT s.partition_id, n, n, 1, 'D', CASE n %% 2 WHEN 0 THEN 3 ELSE 2 END,
        CASE n %% 2 WHEN 0 THEN 7 ELSE n END, NULL, clock_timestamp(), NULL, '\\x01'::bytea,
        CASE n %% 2 WHEN 0 THEN n / 2 + 1 ELSE 1 END, CASE n %% 2 WHEN 0 THEN n / 2 + 1 ELSE 1 END
    FROM broker.partition s, generate_series(0, 39999) n WHERE s.sidecar_of IS NOT NULL
    """,
    """
    INSERT INTO broker.entry
    SELECT s.sidecar_of, 19999, 0, 1, 'C', 3, 7, NULL, clock_timestamp(), NULL, NULL, 20000, 20000
    FROM broker.partition s WHERE s.sidecar_of IS NOT NULL
    """,
    """
    INSERT INTO broker.txn_index
    SELECT s.partition_id, 40000 + n, 0, 40001 + n, 1, 3, 7 + n, false, 0, n * 20000
    FROM broker.partition s, generate_series(0, 1) n WHERE s.sidecar_of IS NOT NULL
    """,
    """
    UPDATE broker.segment g SET ledger_id = 1000001, first_offset = 40000
    FROM broker.partition s WHERE g.partition_id = s.sidecar_of
    """,
    """
    INSERT INTO broker.segment (partition_id, ledger_id, first_offset, last_offset, sealed_at)
    SELECT s.sidecar_of, 1000000, 20000, 39999, '2026-01-01'
    FROM broker.partition s WHERE s.sidecar_of IS NOT NULL
    """,
    """
    UPDATE broker.partition_live l SET next_offset = 40000
    FROM broker.partition s WHERE l.partition_id = s.sidecar_of
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
        _empty(engine, counted)
        for statement in _FILL:
            broker_sql(engine, statement, place.partition_id)
        _check_cost(databases, place, name, rows)


@pytest.mark.parametrize("counted_before", [False, True])
@pytest.mark.parametrize("counted", list(_COUNTED))
def test_what_a_sidecar_log_has_of_a_transaction_costs_what_is_asked_of_it(
    engine: Engine, databases: support.Databases, counted: str, counted_before: bool
) -> None:
    """A part of a large one; and whether a segment may go that has one of which nothing is left.
    What an index has of expressions is not counted anew where it has nothing any more."""
    make_topic(engine, buffer=BufferKind.SIDECAR)
    txn = open_txn(engine)
    engine.produce(P0, batch("x"), txn_id=txn)
    commit(engine, txn)
    place = engine.log.locate(P0)
    [ids] = broker_sql(
        engine,
        "SELECT partition_id, compacted_id FROM broker.partition WHERE sidecar_of IS NOT NULL",
    )
    with autovacuum_off(place.database, "broker"):
        if counted_before:
            for statement in ("TRUNCATE broker.entry", _FILL_SIDECAR[0], "ANALYZE broker.entry"):
                broker_sql(engine, statement)
        _empty(engine, counted)
        for statement in _FILL_SIDECAR:
            broker_sql(engine, statement)
        sidecar = {"side_id": ids.partition_id, "compacted_id": ids.compacted_id}
        _check_cost(databases, place, "sidecar", 100, **sidecar)
        with _planning(databases, place) as session:
            before = _fetched(session)
            [due] = session.execute(statements.named("offload_due"), {"hours": 0}).fetchall()
            read = _fetched(session) - before
    assert due.ledger_id == 1_000_000
    assert read < 400, f"offload_due read {read} rows"


def _empty(engine: Engine, counted: str) -> None:
    """Empty the tables, which were last counted when there was something else in them."""
    for statement in ("TRUNCATE broker.entry, broker.txn_index", *_COUNTED[counted]):
        broker_sql(engine, statement)
    for table in ("broker.entry", "broker.txn_index"):
        broker_sql(engine, f"ANALYZE {table}")
    broker_sql(engine, "TRUNCATE broker.entry, broker.txn_index")


def _planning(
    databases: support.Databases, place: Location
) -> AbstractContextManager[psycopg.Connection[Any]]:
    found = Databases.of({"brokers": ",".join(databases.broker_urls)}, {})
    return found.planning(place.database.name)


def _check_cost(
    databases: support.Databases, place: Location, name: str, rows: int, **sidecar: int
) -> None:
    numbers = {
        "side_id": -1,
        "compacted_id": -1,
        "log_id": place.partition_id,
        "log_start": 0,
        "lower": 15_000,
        "upper": 15_100,
        "committed": 1,
        "since": FIRST_TIME,
        "until": LAST_TIME,
        **sidecar,
    }
    with _planning(databases, place) as session:
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
