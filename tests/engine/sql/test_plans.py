"""A broker's hot statements read few rows, whatever the size of the tables.

Each is asked on a connection whose plans were made and cached when the tables were all but empty,
and on a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from engine import Engine
from engine.log.brokers import Location
from engine.model.topic import BufferKind
from engine.postgres.database import Database
from engine.postgres.session import Session
from tests.engine.sql.hot_statements import (
    EMPTY_BROKER,
    INDEXES,
    Hot,
    check,
    connected,
    counters,
    make_small,
    on_broker,
    undone,
    warm,
)
from tests.engine.support import (
    P0,
    SUBSCRIPTION,
    abort,
    autovacuum_off,
    batch,
    commit,
    make_topic,
    open_txn,
    sql,
    subscribe,
)

pytestmark = pytest.mark.plans

#: Transactional entries, then plain ones with the producer's next sequence ids.
_FILL_BROKER = (
    """
    INSERT INTO broker.entry
    SELECT l.partition_id, l.next_offset + n, l.next_offset + n, l.ledger_id, 'D', n %% 3,
        n / 5 + 1000, n, clock_timestamp(), 'p', '\\x01'
    FROM broker.partition_live l, generate_series(0, 19999) n
    """,
    """
    INSERT INTO broker.entry
    SELECT l.partition_id, l.next_offset + n, l.next_offset + n, l.ledger_id, 'D', NULL,
        NULL, n, clock_timestamp(), 'p', '\\x01'
    FROM broker.partition_live l, generate_series(20000, 39999) n
    """,
    """
    INSERT INTO broker.txn_index
    SELECT partition_id, next_offset + n + 2, next_offset + n, next_offset + n + 3, ledger_id, 0,
        1000 + n, n %% 10 = 0
    FROM broker.partition_live, generate_series(0, 19999) n
    """,
    """
    INSERT INTO broker.ongoing_txn
    SELECT partition_id, 3, n, next_offset + n, next_offset + n, 1, clock_timestamp()
    FROM broker.partition_live, generate_series(1, 19999) n
    """,
    # A large transaction that has committed, its marker behind everything else.
    """
    INSERT INTO broker.entry
    SELECT l.partition_id, l.next_offset + n, l.next_offset + n, l.ledger_id, 'D', 5, 1, n,
        clock_timestamp(), 'p', '\\x01'
    FROM broker.partition_live l, generate_series(40000, 49999) n
    """,
    """
    INSERT INTO broker.entry
    SELECT partition_id, next_offset + 50000, next_offset + 50000, ledger_id, 'C', 5, 1, NULL,
        clock_timestamp(), NULL, NULL
    FROM broker.partition_live
    """,
    """
    INSERT INTO broker.txn_index
    SELECT partition_id, next_offset + 50000, next_offset + 40000, next_offset + 50001, ledger_id,
        5, 1, false
    FROM broker.partition_live
    """,
    # Hours of samples, one each four seconds; filled in twice, one may be of the same moment.
    """
    INSERT INTO broker.position_sample
    SELECT partition_id, clock_timestamp() - n * interval '4 seconds', 2, 2 + n %% 7
    FROM broker.partition_live, generate_series(1, 5000) n
    ON CONFLICT DO NOTHING
    """,
    "UPDATE broker.partition_live SET next_offset = next_offset + 50001",
)
#: A small one whose end only its entries tell, since the low water mark has passed it.
_FILL_FORGOTTEN = (
    """
    INSERT INTO broker.low_water_mark SELECT partition_id, 4, 9 FROM broker.partition_live
    """,
    """
    INSERT INTO broker.entry
    SELECT l.partition_id, l.next_offset + n, l.next_offset + n, l.ledger_id,
        CASE n WHEN 60001 THEN 'C' ELSE 'D' END, 4, 8, NULL, clock_timestamp(), NULL, NULL
    FROM broker.partition_live l, generate_series(60000, 60001) n
    """,
    # What the fences know of others.
    """
    INSERT INTO broker.ended_txn (partition_id, tc_id, sequence, aborted, messages)
    SELECT partition_id, 6, n, false, 1 FROM broker.partition_live, generate_series(1, 20000) n
    """,
    """
    INSERT INTO broker.ended_ack_txn (subscription_id, tc_id, sequence, aborted, messages)
    SELECT subscription_id, 6, n, false, 1 FROM broker.subscription, generate_series(1, 20000) n
    """,
)
#: Which rows have been there, and left their place in the files and in some of the indexes.
_EMPTIED: dict[str, tuple[str, ...]] = {
    "never filled": (),
    "of transactional entries": (_FILL_BROKER[0], *EMPTY_BROKER),
    "of plain entries": (_FILL_BROKER[1], *EMPTY_BROKER),
    "of all": (*_FILL_BROKER[:-1], *EMPTY_BROKER),
}


@pytest.fixture
def used(engine: Engine) -> Iterator[tuple[Database, list[Hot]]]:
    """A broker's database with a partition in use, and its hot statements."""
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch(*"abc"), producer_name="p", sequence_id=1)
    txn = open_txn(engine)
    engine.produce(P0, batch("x"), txn_id=txn)
    abort(engine, txn)
    location = engine.log.locate(P0)
    topic_id = engine.topics.get(SUBSCRIPTION.topic).topic_id
    [row] = sql(location.database, "SELECT subscription_id FROM broker.subscription")
    with autovacuum_off(location.database, "broker"):
        yield (
            location.database,
            on_broker(location.partition_id, row.subscription_id, topic_id),
        )


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize("emptied", _EMPTIED)
def test_a_brokers_hot_statements_read_few_rows(
    used: tuple[Database, list[Hot]], analyzed: bool, emptied: str
) -> None:
    """Also with plans made when the tables, counted all but empty, were large files: what the
    statistics say of them, and of their indexes, is wrong by far then."""
    database, statements = used
    with connected(database) as session:
        for statement in _EMPTIED[emptied]:
            sql(database, statement)
        sql(database, "ANALYZE")
        warm(session, statements)
        for fill in _FILL_BROKER:
            sql(database, fill)
        if analyzed:
            sql(database, "ANALYZE")
        check(session, statements)
        with connected(database) as fresh:
            check(fresh, statements)


def test_who_trims_samples_looks_at_none_that_stay(used: tuple[Database, list[Hot]]) -> None:
    """A worker does so each second."""
    database, _ = used
    for fill in _FILL_BROKER:
        sql(database, fill)
    with connected(database) as session, undone(session):
        _, before = counters(session).get("position_sample", (0, 0))
        assert session.run("trim_samples", keep=timedelta(days=2)) == 0
        _, after = counters(session).get("position_sample", (0, 0))
        assert after - before <= 5


@pytest.mark.parametrize("analyzed", [False, True])
def test_who_looks_for_stranded_letters_reads_few_of_those_that_wait(
    used: tuple[Database, list[Hot]], analyzed: bool
) -> None:
    """A worker does so every five seconds."""
    database, _ = used
    question = Hot("waiting_letters", {"limit": 1000, "letters": 100}, 105)
    with connected(database) as session:
        warm(session, [question])
        sql(
            database,
            "INSERT INTO broker.dead_letter"
            " (subscription_id, partition_id, sequence_id, message_offset, target)"
            " SELECT subscription_id, partition_id, n, n, 0"
            " FROM broker.cursor, generate_series(1, 20000) n",
        )
        if analyzed:
            sql(database, "ANALYZE")
        assert [row.letters for row in session.all(question.name, **question.parameters)] == [100]
        check(session, [question])
        with connected(database) as fresh:
            check(fresh, [question])


@pytest.mark.parametrize("place", range(INDEXES))
def test_a_brokers_hot_statements_read_few_rows_whichever_index_is_the_smallest(
    used: tuple[Database, list[Hot]], place: int
) -> None:
    """Where a table is counted all but empty, the size of its indexes alone decides between those
    that can serve a statement: one that fits no better must not serve it at all. Each index in turn
    is as small as the rows that there are, all others of its table as large as what has been."""
    database, statements = used
    with connected(database) as session:
        for statement in _EMPTIED["of all"]:
            sql(database, statement)
        sql(database, "ANALYZE")
        make_small(database, place)
        warm(session, statements)
        for fill in _FILL_BROKER:
            sql(database, fill)
        check(session, statements)
        with connected(database) as fresh:
            check(fresh, statements)


@pytest.mark.parametrize("place", range(INDEXES))
def test_what_only_a_transactions_entries_tell_is_asked_of_few_whichever_index_is_the_smallest(
    used: tuple[Database, list[Hot]], place: int
) -> None:
    """Whether it has ended, once the fence has forgotten it; the evidence of it; its invariants."""
    database, statements = used
    [end] = [hot for hot in statements if hot.name == "end_txns_on"]
    of_partition = next(hot.parameters for hot in statements if hot.name == "status")
    one = {"tc_ids": [4], "sequences": [8]}
    places = {**of_partition, "from_offset": 60_005, "to_offset": 60_006}
    named = one | {"topic_ids": end.parameters["topic_ids"]}
    questions = [
        Hot("end_txns_on", {**end.parameters, **one}, 20),
        Hot("end_txns_on", {**end.parameters, **one, "aborts": [True]}, 20),
        Hot("with_entries", {**of_partition, **one}, 5),
        Hot("odd_markers", places, 10),
        Hot("unindexed_markers", places, 10),
        Hot("partition_evidence", named | {"numbers": [0]}, 10),
        Hot("subscription_evidence", named | {"names": [SUBSCRIPTION.name]}, 10),
        # All entries of the range are looked at once, and of each aborted transaction its own.
        Hot("invisible", {**of_partition, "mark_delete": 10_005, "stable_position": 12_005}, 3000),
    ]
    with connected(database) as session:
        for statement in _EMPTIED["of all"]:
            sql(database, statement)
        sql(database, _FILL_FORGOTTEN[0])
        sql(database, "ANALYZE")
        make_small(database, place)
        warm(session, questions)
        for fill in (*_FILL_FORGOTTEN[1:], *_FILL_BROKER):
            sql(database, fill)
        check(session, questions)
        with connected(database) as fresh:
            check(fresh, questions)


def test_retention_asks_what_subscriptions_hold_once_however_many_segments_there_are(
    engine: Engine,
) -> None:
    segments = 50
    make_topic(engine, segment_max_messages=1, retention_ms=0)
    for number in range(segments):
        engine.produce(P0, batch(str(number)))
    subscribe(engine)
    location = engine.log.locate(P0)
    asked = {"partition_id": location.partition_id, "limit": 200}
    with connected(location.database) as session, undone(session):
        before = subscriptions_read(session)
        session.all("expirable", **asked)
        read = subscriptions_read(session) - before
    # Of a table with statistics the planner reads the least and the greatest key too.
    stored = sql(location.database, "SELECT count(*) AS number FROM broker.subscription")
    assert 0 < read <= stored[0].number + 4 < segments


def subscriptions_read(session: Session) -> int:
    row = session._connection.execute(
        "SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::bigint AS read"
        " FROM pg_stat_xact_user_tables WHERE relname = 'subscription'"
    ).fetchone()
    return 0 if row is None else row.read


@pytest.mark.parametrize("buffer", BufferKind)
def test_an_end_does_not_walk_over_what_the_fence_has_forgotten(
    engine: Engine, buffer: BufferKind
) -> None:
    """Until a vacuum comes, the index still has the rows that a low water mark has taken out."""
    make_topic(engine, buffer=buffer)
    location = engine.log.locate(P0)
    with autovacuum_off(location.database, "broker"):
        sql(
            location.database,
            "INSERT INTO broker.ended_txn SELECT %s, 0, n, true, NULL, NULL, NULL, 0"
            " FROM generate_series(0, 49999) n",
            location.partition_id,
        )
        blocks = [_blocks_of_an_end(location, sequence) for sequence in (50_000, 50_001, 50_002)]
    assert sql(location.database, "SELECT FROM broker.ended_txn") == []
    assert blocks[-1] < 150, blocks


@pytest.mark.parametrize("buffer", BufferKind)
def test_an_end_does_not_walk_over_what_was_ongoing_once(
    engine: Engine, buffer: BufferKind
) -> None:
    """It looks for orphans, which cannot be below the mark that was known before."""
    make_topic(engine, buffer=buffer)
    engine.produce(P0, batch("a"), txn_id=open_txn(engine, tc_id=1))
    location = engine.log.locate(P0)
    with autovacuum_off(location.database, "broker"):
        sql(
            location.database,
            "INSERT INTO broker.ongoing_txn"
            " SELECT partition_id, 0, n, 2 + n, 2 + n, 1, clock_timestamp()"
            " FROM broker.ongoing_txn, generate_series(0, 49999) n",
        )
        sql(location.database, "DELETE FROM broker.ongoing_txn WHERE tc_id = 0")
        blocks = [_blocks_of_an_end(location, sequence) for sequence in (49_999, 50_000, 50_001)]
    assert blocks[-1] < 150, blocks


def test_an_end_of_acknowledgements_does_not_walk_over_what_the_fence_has_forgotten(
    engine: Engine,
) -> None:
    make_topic(engine)
    subscribe(engine)
    database = engine.log.locate(P0).database
    with autovacuum_off(database, "broker"):
        sql(
            database,
            "INSERT INTO broker.ended_ack_txn SELECT subscription_id, 0, n, true, 0"
            " FROM broker.subscription, generate_series(0, 49999) n",
        )
        sql(
            database,
            "INSERT INTO broker.pending_ack SELECT subscription_id, partition_id, 0, n,"
            " 'INDIVIDUAL', '{}' FROM broker.cursor, generate_series(0, 49999) n",
        )
        # The first has orphans to pass over, and stays below them.
        ends = (50_000, 50_000, 50_001)
        blocks = [_blocks_of_an_end_of_acks(engine, sequence) for sequence in ends]
    assert sql(database, "SELECT FROM broker.ended_ack_txn") == []
    assert blocks[-1] < 100, blocks


def _blocks_of_an_end_of_acks(engine: Engine, sequence: int) -> int:
    """As the one below, of an end for a subscription; orphans do not outlive it."""
    database = engine.log.locate(P0).database
    [row] = sql(
        database,
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT json) SELECT * FROM broker.conclude_ack_ends("
        "(SELECT subscription_id FROM broker.subscription), '{}', '{}', '{}', '{}', '{0}', %s)",
        [sequence],
    )
    sql(database, "DELETE FROM broker.pending_ack")
    plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def _blocks_of_an_end(location: Location, sequence: int) -> int:
    """How many blocks PostgreSQL looks at to end a transaction and all that came before it."""
    [row] = sql(
        location.database,
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT json)"
        " SELECT * FROM broker.end_txns(%s, '{0}', %s, '{t}', true, '{0}', %s)",
        location.partition_id,
        [sequence],
        [sequence],
    )
    plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


#: What fence and samples know of the log's beginning.
_OF_BEFORE = (
    """
    INSERT INTO broker.ended_txn
    SELECT %s, 1, g, true, 0, NULL, NULL, 0 FROM generate_series(1, 5000) g
    """,
    """
    INSERT INTO broker.position_sample
    SELECT %s, now() - g * interval '1 second', 0, 0 FROM generate_series(1, 5000) g
    """,
)


def test_a_step_of_a_truncation_reads_of_fence_and_samples_what_it_cuts(engine: Engine) -> None:
    make_topic(engine)
    open_txn(engine)  # so that the fence forgets nothing
    for _ in range(3):
        txn = open_txn(engine)
        engine.produce(P0, batch("a"), txn_id=txn)
        commit(engine, txn)
    location = engine.log.locate(P0)
    for fill in _OF_BEFORE:
        sql(location.database, fill, location.partition_id)
    sql(location.database, "ANALYZE broker.ended_txn, broker.position_sample")
    engine.partitions.take_offline(P0, reason="test")
    step: dict[str, object] = {"partition_id": location.partition_id, "limit": 2, "decided": []}
    with connected(location.database) as session, undone(session):
        session.one("truncate", **step, offset=0, end=None)
        before = counters(session)
        cut = session.one("truncate", **step, offset=0, end=4)
        after = counters(session)
        [fence] = session._connection.execute(
            "SELECT array_agg(marker_offset) AS markers FROM broker.ended_txn WHERE tc_id = 0"
        ).fetchall()
    assert cut is not None
    assert (cut.result, cut.next_offset, cut.entries) == ("truncated", 2, 2)
    assert sorted(fence.markers, key=str) == [1, None, None]
    for table in ("ended_txn", "position_sample"):
        assert after[table][1] - before[table][1] <= 2, table
