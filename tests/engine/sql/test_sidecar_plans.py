"""The sidecar's hot statements cost by their answer, never by history (semantics §4.3).

As tests/engine/sql/test_plans.py, whose measure this is: rows read as PostgreSQL counts them, on a
connection whose plans were made and kept when the tables were all but empty, and on a new one.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine import Engine
from engine.model.topic import BufferKind
from engine.postgres.database import Database
from tests.engine.sql.hot_statements import (
    EMPTY_BROKER,
    INDEXES,
    Hot,
    check,
    connected,
    make_small,
    warm,
)
from tests.engine.support import (
    P0,
    TOPIC,
    abort,
    autovacuum_off,
    batch,
    broker_sql,
    commit,
    make_topic,
    open_txn,
    sql,
    subscribe,
)

pytestmark = pytest.mark.plans

#: One transaction of 20 000 entries committed at the offsets from 100 000 on, still in the sidecar
#: log among as many of others; 20 000 more committed one by one from 200 000 on, half of them
#: rewritten already; 20 000 open ones.
_FILL = (
    """
    INSERT INTO broker.entry
    SELECT s.partition_id, 1000 + n, 1000 + n, 1, 'D', CASE n %% 2 WHEN 0 THEN 3 ELSE 2 END,
        CASE n %% 2 WHEN 0 THEN 7 ELSE 100000 + n END, n, clock_timestamp(), 'p', '\\x01',
        CASE n %% 2 WHEN 0 THEN n / 2 + 1 ELSE 1 END, CASE n %% 2 WHEN 0 THEN n / 2 + 1 ELSE 1 END
    FROM broker.partition s, generate_series(0, 39999) n WHERE s.sidecar_of IS NOT NULL
    """,
    """
    INSERT INTO broker.entry
    SELECT s.sidecar_of, 119999, 100000, 1, 'C', 3, 7, NULL, clock_timestamp(), NULL, NULL,
        20000, 20000
    FROM broker.partition s WHERE s.sidecar_of IS NOT NULL
    """,
    """
    INSERT INTO broker.entry
    SELECT s.sidecar_of, 200000 + n, 200000 + n, 1, 'C', 1, n, NULL, clock_timestamp(), NULL, NULL,
        1, 1
    FROM broker.partition s, generate_series(0, 19999) n WHERE s.sidecar_of IS NOT NULL
    """,
    """
    INSERT INTO broker.entry
    SELECT s.compacted_id, 200000 + n, 200000 + n, 1, 'D', 1, n, NULL, clock_timestamp(), NULL,
        '\\x01', 1, 1
    FROM broker.partition s, generate_series(0, 9999) n WHERE s.sidecar_of IS NOT NULL
    """,
    """
    INSERT INTO broker.entry
    SELECT s.partition_id, 60000 + n, 60000 + n, 1, 'D', 1, n, NULL, clock_timestamp(), NULL,
        '\\x01', 1, 1
    FROM broker.partition s, generate_series(10000, 19999) n WHERE s.sidecar_of IS NOT NULL
    """,
    """
    INSERT INTO broker.txn_index
    SELECT s.partition_id, 80000 + n, 60000 + n, 80000 + n, 1, 1, n, false, 0, 200000 + n
    FROM broker.partition s, generate_series(10000, 19999) n WHERE s.sidecar_of IS NOT NULL
    UNION ALL
    SELECT s.partition_id, 70000, 1000, 70000, 1, 3, 7, false, 0, 100000
    FROM broker.partition s WHERE s.sidecar_of IS NOT NULL
    """,
    """
    INSERT INTO broker.ongoing_txn
    SELECT s.partition_id, 2, 100000 + n, 1000 + n, 1000 + n, 1, clock_timestamp()
    FROM broker.partition s, generate_series(1, 39999, 2) n WHERE s.sidecar_of IS NOT NULL
    """,
    """
    UPDATE broker.partition_live l SET next_offset = CASE WHEN s.partition_id = l.partition_id
        THEN 100000 ELSE 220000 END
    FROM broker.partition s
    WHERE s.sidecar_of IS NOT NULL AND l.partition_id IN (s.partition_id, s.sidecar_of)
    """,
)
#: The fence has forgotten what the low water marks cover, one of 20 000 entries that aborted too.
_FILL_FORGOTTEN = (
    """
    INSERT INTO broker.low_water_mark
    SELECT s.sidecar_of, tc_id, 100000
    FROM broker.partition s, unnest(ARRAY[1, 4]) tc_id WHERE s.sidecar_of IS NOT NULL
    """,
    """
    INSERT INTO broker.entry
    SELECT s.partition_id, 300000 + n, 300000 + n, 1, 'D', 4, 8, n, clock_timestamp(), 'p', '\\x01',
        n + 1, n + 1
    FROM broker.partition s, generate_series(0, 19999) n WHERE s.sidecar_of IS NOT NULL
    """,
    """
    INSERT INTO broker.txn_index
    SELECT s.partition_id, 320000, 300000, 320000, 1, 4, 8, true, 0, NULL
    FROM broker.partition s WHERE s.sidecar_of IS NOT NULL
    """,
)
#: What has been rewritten is not below any partition's end.
_EMPTY_REWRITTEN = """
DELETE FROM broker.entry e USING broker.partition s WHERE e.partition_id = s.compacted_id
"""


def statements(topic_id: int, partition_id: int, log_id: int) -> list[Hot]:
    key: dict[str, object] = {"partition_id": partition_id}
    append = key | {
        "messages": 1,
        "body": b"\x01",
        "producer_name": "p",
        "sequence_id": 10**6,
        "tc_id": 0,
        "sequence": 900,
    }
    end = {
        "topic_ids": [topic_id],
        "numbers": [0],
        "upto": [1],
        "mark_tcs": [0],
        "marks": [5],
        "tc_ids": [0],
        "sequences": [7],
    }

    def window(from_offset: int) -> dict[str, object]:
        return key | {"from_offset": from_offset, "upper": from_offset + 10, "max_bytes": 10**6}

    return [
        Hot("append_sidecar", append, 10),
        Hot("append_sidecar", append | {"tc_id": 2, "sequence": 100_001, "sequence_id": 1}, 10),
        Hot("end_txns_on", end | {"aborts": [False]}, 20),
        Hot("end_txns_on", end | {"aborts": [True]}, 20),
        # The whole of a huge transaction is committed without a look at its entries.
        Hot("end_txns_on", end | {"aborts": [False], "tc_ids": [2], "sequences": [100_001]}, 20),
        Hot("sidecar_entries", window(100_000), 40),
        Hot("sidecar_entries", window(110_000), 40),
        Hot("sidecar_entries", window(119_995), 40),
        Hot("sidecar_entries", window(202_000), 90),
        Hot("sidecar_entries", window(209_995), 90),
        Hot("sidecar_entries", window(215_000), 90),
        Hot("status", key, 10),
        Hot("ongoing_of_txn", key | {"tc_id": 2, "sequence": 100_001}, 5),
        Hot("ongoing", key | {"above": -1, "limit": 10}, 20),
        Hot("compact_sidecar", key | {"limit": 10}, 60),
        Hot("sidecar_log", {"partition_id": log_id}, 5),
    ]


@pytest.fixture
def used(engine: Engine) -> Iterator[tuple[Database, list[Hot]]]:
    """A broker's database with a sidecar-buffered partition in use, and its hot statements."""
    make_topic(engine, buffer=BufferKind.SIDECAR)
    subscribe(engine)
    kept, gone = open_txn(engine), open_txn(engine)
    for txn_id in (kept, gone, open_txn(engine)):
        engine.produce(P0, batch("x"), txn_id=txn_id)
    commit(engine, kept)
    abort(engine, gone)
    location = engine.log.locate(P0)
    [log] = broker_sql(engine, "SELECT partition_id FROM broker.partition WHERE topic_id IS NULL")
    topic_id = engine.topics.get(TOPIC).topic_id
    with autovacuum_off(location.database, "broker"):
        yield location.database, statements(topic_id, location.partition_id, log.partition_id)


@pytest.mark.parametrize("analyzed", [False, True])
def test_a_sidecars_hot_statements_read_few_rows(
    used: tuple[Database, list[Hot]], analyzed: bool
) -> None:
    database, hot = used
    sql(database, "ANALYZE")
    with connected(database) as session:
        warm(session, hot)
        for fill in _FILL:
            sql(database, fill)
        if analyzed:
            sql(database, "ANALYZE")
        check(session, hot)
        with connected(database) as fresh:
            check(fresh, hot)


@pytest.mark.parametrize("place", range(INDEXES))
def test_a_sidecars_hot_statements_read_few_rows_whichever_index_is_the_smallest(
    used: tuple[Database, list[Hot]], place: int
) -> None:
    """As for other partitions: an index that fits no better must not serve a statement at all."""
    database, hot = used
    with connected(database) as session:
        for fill in _FILL[:-1]:
            sql(database, fill)
        for statement in (*EMPTY_BROKER, _EMPTY_REWRITTEN):
            sql(database, statement)
        sql(database, "ANALYZE")
        make_small(database, place)
        warm(session, hot)
        for fill in _FILL:
            sql(database, fill)
        check(session, hot)
        with connected(database) as fresh:
            check(fresh, hot)


@pytest.mark.parametrize("place", range(INDEXES))
def test_an_end_that_is_repeated_is_answered_by_one_entry_whichever_index_is_the_smallest(
    used: tuple[Database, list[Hot]], place: int
) -> None:
    """Once the fence has forgotten it: a commit has its marker in the partition, an abort a row in
    the log's index, and as many entries as it has written."""
    database, hot = used
    end = next(each for each in hot if each.name == "end_txns_on")
    marks, *aborted = _FILL_FORGOTTEN
    repeated = [
        Hot(
            end.name, {**end.parameters, "tc_ids": [tc_id], "sequences": [8], "aborts": [abort]}, 20
        )
        for tc_id, abort in [(1, False), (4, True)]
    ]
    with connected(database) as session:
        for fill in (*_FILL[:-1], *aborted, *EMPTY_BROKER, _EMPTY_REWRITTEN, marks, "ANALYZE"):
            sql(database, fill)
        make_small(database, place)
        warm(session, repeated)
        for fill in (*_FILL[:-1], *aborted, _FILL[-1]):
            sql(database, fill)
        check(session, repeated)
        with connected(database) as fresh:
            check(fresh, repeated)
