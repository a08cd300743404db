"""The coordinators' hot statements read few rows, whatever the size of the tables, and whatever the
statistics know of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from engine import Engine
from engine.coordinator import listing
from engine.coordinator.listing import list_page
from engine.model.transaction import TransactionFilter, TransactionOrder
from engine.model.txn_status import TxnAction, TxnStatus
from engine.postgres.database import Database
from engine.postgres.session import Session
from tests.engine.sql.hot_statements import (
    Hot,
    check,
    connected,
    counters,
    on_coordinator,
    undone,
    warm,
)
from tests.engine.support import (
    P0,
    autovacuum_off,
    make_topic,
    open_txn,
    sql,
)

pytestmark = pytest.mark.plans

#: A quarter open, a quarter waiting for a participant, the rest ended.
_STATUS = "CASE n / 4 %% 4 WHEN 0 THEN 'OPEN' WHEN 1 THEN 'ABORTING' ELSE 'COMMITTED' END"
_FILL_COORDINATOR = """
INSERT INTO coordinator.transaction (tc_id, sequence, status, owner, client, properties, opened_at,
    timeout_ms, deadline, decided_at, ended_at, next_attempt_at, attempts)
SELECT n %% 4, 1000 + n, s.status, 'o' || n %% 7, '', '{}', clock_timestamp(), 60000,
    clock_timestamp() + interval '1 hour',
    CASE WHEN s.status <> 'OPEN' THEN clock_timestamp() END,
    CASE WHEN s.status = 'COMMITTED' THEN clock_timestamp() END,
    CASE WHEN s.status = 'ABORTING' THEN clock_timestamp() + interval '9 seconds' END,
    CASE WHEN s.status = 'ABORTING' THEN 7 ELSE 0 END
FROM generate_series(1, 20000) n, LATERAL (
    SELECT CASE n / 4 %% 4 WHEN 0 THEN 'OPEN' WHEN 1 THEN 'ABORTING' ELSE 'COMMITTED' END
        ::coordinator.txn_status AS status) s
"""
#: What the statistics may know when the table is large: nothing, that it is empty, that nothing is
#: open, that nothing was when it was last large, the truth. Sweeps plan each call by them, and must
#: find their index all the same.
_STATISTICS = {
    "none": [],
    "of an empty table": ["ANALYZE coordinator.transaction"],
    "of ended ones": [
        _FILL_COORDINATOR.replace(_STATUS, "'COMMITTED'"),
        "ANALYZE coordinator.transaction",
    ],
    "of ended ones, long ago": [
        _FILL_COORDINATOR.replace(_STATUS, "'COMMITTED'"),
        "ANALYZE coordinator.transaction",
        "TRUNCATE coordinator.transaction CASCADE",
    ],
    "true": [_FILL_COORDINATOR, "ANALYZE coordinator.transaction"],
}


@pytest.fixture
def unvacuumed(engine: Engine) -> Iterator[Database]:
    """The coordinator's database, its transactions without a trace of earlier tests: neither their
    dead rows nor the statistics that a vacuum has taken of them."""
    database = engine.database
    sql(database, "ALTER TABLE coordinator.transaction SET (autovacuum_enabled = false)")
    sql(database, "TRUNCATE coordinator.transaction CASCADE")
    sql(
        database,  # They outlive what they were taken of.
        "SELECT pg_clear_attribute_stats(schemaname, tablename, attname, inherited)"
        " FROM pg_stats WHERE schemaname = 'coordinator' AND tablename = 'transaction'",
    )
    for statement in _STILL_CLOCK:
        sql(database, statement)
    yield database
    sql(database, "DROP SCHEMA still CASCADE")
    sql(database, "ALTER TABLE coordinator.transaction RESET (autovacuum_enabled)")


#: A clock of statements that stands still once ``still.at`` is set, so that pauses of seconds last
#: however long a test takes.
_STILL_CLOCK = (
    "CREATE SCHEMA still",
    """
    CREATE FUNCTION still.statement_timestamp() RETURNS timestamptz STABLE LANGUAGE sql AS $$
        SELECT coalesce(
            nullif(current_setting('still.at', true), '')::timestamptz,
            pg_catalog.statement_timestamp())
    $$
    """,
)


def stop_clock(session: Session, at: str = "") -> None:
    session.script("SET search_path = still, pg_catalog")
    session.script(f"SET still.at = '{at}'")


@pytest.mark.parametrize("known", _STATISTICS)
def test_the_coordinators_hot_statements_read_few_rows(
    engine: Engine, unvacuumed: Database, known: str
) -> None:
    make_topic(engine)
    engine.coordinator.add_partitions(open_txn(engine), [P0])
    decided = open_txn(engine, tc_id=3)
    engine.coordinator.add_partitions(decided, [P0])
    engine.coordinator.end(decided, TxnAction.COMMIT)
    statements = on_coordinator()
    with connected(unvacuumed) as session:
        stop_clock(session)
        warm(session, statements)
        for statement in _STATISTICS[known]:
            sql(unvacuumed, statement)
        sql(unvacuumed, "DELETE FROM coordinator.transaction WHERE sequence >= 1000")
        sql(unvacuumed, _FILL_COORDINATOR)
        [filled] = sql(
            unvacuumed, "SELECT max(decided_at)::text AS at FROM coordinator.transaction"
        )
        stop_clock(session, filled.at)
        check(session, statements)
        session.script("DISCARD PLANS")  # As any change of a table's statistics does, at any time.
        check(session, statements)
        with connected(unvacuumed) as fresh:
            stop_clock(fresh, filled.at)
            check(fresh, statements)


_FILL_CATALOG = (
    """
    INSERT INTO coordinator.topic (tenant, namespace, topic, buffer, brokers, retention_ms,
        retention_bytes, segment_max_messages, segment_max_bytes, deduplication)
    SELECT 'plans', 'n' || n %% 7, 't' || n, 'marker', '{broker-1}', 1, 1, 1, 1, false
    FROM generate_series(1, 20000) n
    """,
    # Every thousandth is broken.
    """
    INSERT INTO coordinator.invariant_check
        (name, subject, invariant, position, found, counter_examples)
    SELECT c.name, 'plans/n' || n %% 7 || '/t:' || n, c.invariant, 0, '[]',
        CASE WHEN n %% 1000 = 0 THEN '[1]'::jsonb ELSE '[]' END
    FROM generate_series(1, 10000) n, (VALUES ('one_marker', 2), ('index_rows', 1))
        AS c (name, invariant)
    """,
)


@pytest.mark.parametrize("analyzed", [False, True])
def test_a_page_of_topics_or_of_checks_reads_what_it_shows(engine: Engine, analyzed: bool) -> None:
    """What a filter leaves out it looks at, too, but nothing twice."""
    database = engine.database
    topics = {"tenant": "", "namespace": "", "topic": "", "include_system": False, "limit": 10}
    checks = {"holds": False, "invariant": 0, "name": "", "subject": "", "limit": 30}
    middle = {"holds": True, "invariant": 2, "name": "one_marker", "subject": "plans/n3/t:2000"}
    questions = [
        Hot("list_topics", topics | {"part": ""}, 11, adhoc=True),
        Hot(
            "list_topics",
            topics | {"tenant": "plans", "namespace": "n3", "part": ""},
            11,
            adhoc=True,
        ),
        Hot("list_topics", topics | {"part": "nowhere"}, 20_050, adhoc=True),
        Hot("checks", checks | {"broken": False, "part": ""}, 31, adhoc=True),
        Hot("checks", checks | middle | {"broken": False, "part": ""}, 31, adhoc=True),
        Hot("checks", checks | {"broken": True, "part": ""}, 21, adhoc=True),
        Hot("checks", checks | {"broken": True, "part": "/n3/"}, 21, adhoc=True),
        Hot("checks", checks | {"broken": False, "part": "nowhere"}, 20_050, adhoc=True),
    ]
    with autovacuum_off(database, "coordinator"), connected(database) as session:
        for fill in _FILL_CATALOG:
            sql(database, fill)
        if analyzed:
            sql(database, "ANALYZE coordinator.topic, coordinator.invariant_check")
        check(session, questions, tables=["topic", "invariant_check"])


@pytest.mark.parametrize(
    "function",
    [
        *("coordinator.due_ends", "coordinator.low_water_marks", "coordinator.record_ends"),
        *("broker.open_ack_ends", "broker.end_acks", "broker.end_txns_on"),
    ],
)
def test_what_a_run_of_the_finalizer_asks_keeps_its_plans(engine: Engine, function: str) -> None:
    """PostgreSQL takes an array that it does not know for ten rows, and would plan each call anew
    for the one or two that there are (docs/decisions/0042)."""
    database = (
        engine.database if function.startswith("coordinator") else engine._brokers.get("broker-1")
    )
    [row] = sql(database, "SELECT proconfig FROM pg_proc WHERE oid = %s::regproc", function)
    assert row.proconfig == ["plan_cache_mode=force_generic_plan"]


@pytest.mark.parametrize("known", _STATISTICS)
def test_a_page_of_a_list_reads_no_more_than_it_may_look_at(
    unvacuumed: Database, known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the filter; what its index serves alone reads the page and nothing else."""
    monkeypatch.setattr(listing, "_SCAN_LIMIT", 200)
    served = 60
    filters = [
        (TransactionFilter(), served),
        (TransactionFilter(owner="o3"), served),
        (TransactionFilter(statuses=(TxnStatus.OPEN,)), served),
        (TransactionFilter(statuses=(TxnStatus.ABORTING, TxnStatus.ABORTED)), 2 * served),
        (TransactionFilter(statuses=(TxnStatus.COMMITTED,)), 210),
        (TransactionFilter(tc_id=1), 210),
        (TransactionFilter(owner="o3", statuses=(TxnStatus.COMMITTING,)), 210),
        (TransactionFilter(owner="nobody"), 10),
        (TransactionFilter(statuses=(TxnStatus.OPEN,), min_age_ms=3_600_000), 10),
        (TransactionFilter(overdue=True), 210),
        (TransactionFilter(timed_out=True), 2 * 210),
        (TransactionFilter(pending_acks=True), 3 * 210),
        (TransactionFilter(owner="o3", subscription="s"), 210),
        (TransactionFilter(topic="public/default/orders"), 210),
    ]
    for statement in _STATISTICS[known]:
        sql(unvacuumed, statement)
    sql(unvacuumed, "DELETE FROM coordinator.transaction")
    sql(unvacuumed, _FILL_COORDINATOR)
    with connected(unvacuumed) as session:
        for order, (filter, rows) in product(TransactionOrder, filters):
            with undone(session):
                before = counters(session).get("transaction", (0, 0))
                list_page(session, filter, order=order, limit=50, cursor=None)
                after = counters(session)["transaction"]
            assert after[0] == before[0], (order, filter)
            allowed = 210 if order is TransactionOrder.OVERDUE else rows
            assert after[1] - before[1] <= allowed, (order, filter)


def test_a_list_judges_headers_without_a_call_and_looks_their_participants_up(
    unvacuumed: Database,
) -> None:
    """A call of a function for each of 5000 headers took a quarter of a second; reading a topic's
    participants at once costs as much as its history."""
    sql(unvacuumed, _FILL_COORDINATOR)
    sql(unvacuumed, "ANALYZE coordinator.transaction")
    asked = TransactionFilter(
        topic="public/default/orders", subscription="s", pending_acks=True, min_age_ms=1, tc_id=1
    )
    with connected(unvacuumed) as session:
        for order in TransactionOrder:
            for scan in listing._scans(asked, order, 50, None):
                explained = session._connection.execute(
                    "EXPLAIN (VERBOSE) " + session._queries["list_txns"], scan, prepare=False
                )
                plan = "\n".join(row[0] for row in explained)
                assert "judged" in plan
                assert "matches(" not in plan
                assert "hashed" not in plan
