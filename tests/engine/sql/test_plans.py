"""The hot statements read few rows, whatever the size of the tables.

Counted by PostgreSQL itself within one transaction (``pg_stat_xact_user_tables``), so that
statements within functions count as well. Each is asked on a connection whose plans were made and
cached when the tables were all but empty, and on a new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import product

import pytest

from engine import Engine
from engine.coordinator import listing
from engine.coordinator.listing import list_page
from engine.log.brokers import Location
from engine.model.topic import BufferKind
from engine.model.transaction import TransactionFilter, TransactionOrder
from engine.model.txn_status import TxnAction, TxnStatus
from engine.postgres.database import Database, Session
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

_TABLES = [
    *("entry", "txn_index", "ongoing_txn", "ended_txn", "dispatch", "position_sample"),
    *("dead_letter", "ended_ack_txn", "transaction", "txn_partition"),
]

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
#: After two messages of three, an aborted one, its marker, and what is filled in.
_LARGE_MARKER = 5 + 50_000
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


_RECORDED = (
    *("tc_ids", "sequences", "topic_ids", "partitions", "states", "first_offsets"),
    *("last_offsets", "messages", "errors", "ack_tc_ids", "ack_sequences", "ack_topic_ids"),
    *("subscriptions", "brokers", "ack_states", "acked_messages", "ack_errors"),
)
_CONCLUDED: dict[str, object] = {
    **{name: [] for name in _RECORDED},
    "concluded_tc_ids": [0],
    "concluded_sequences": [0],
}


@dataclass(frozen=True)
class Hot:
    """A statement, its parameters, and how many rows of the big tables it may read."""

    name: str
    parameters: Mapping[str, object]
    rows: int
    adhoc: bool = False

    def run(self, session: Session) -> None:
        """As the engine does, with a plan that is kept or one made for this call."""
        (session.adhoc if self.adhoc else session.run)(self.name, **self.parameters)


def append(partition_id: int, **changes: object) -> Hot:
    parameters: dict[str, object] = {
        "messages": 1,
        "bodies": b"\x01",
        "producers": "p",
        "sequence_ids": 10**6,
        "tc_ids": None,
        "sequences": None,
    }
    arrays = {name: [value] for name, value in (parameters | changes).items()}
    return Hot("append", {"partition_id": partition_id} | arrays, 10)


def ordered(key: Mapping[str, object], **place: object) -> Hot:
    """Ten messages in committed order; a function's loop reads its rows fifty at a time."""
    limits = {"within": None, "max_messages": 10, "max_bytes": 10**6}
    return Hot("committed_order", {**key, **limits, **place}, 80)


def on_broker(partition_id: int, subscription_id: int, topic_id: int) -> list[Hot]:
    key = {"partition_id": partition_id}
    near = key | {"from_offset": 2, "upper": 12}
    index = {
        "ledger_id": None,
        "from_offset": 10_000,
        "max_offset": 2**63 - 1,
        "scan_limit": 20,
        "limit": 10,
    }
    end = {
        "topic_ids": [topic_id],
        "numbers": [0],
        "upto": [1],
        "mark_tcs": [0],
        "marks": [5],
        "tc_ids": [0],
        "sequences": [7],
        "aborts": [False],
    }
    held: dict[str, object] = {
        "tc_ids": [3],
        "sequences": [9],
        "topic_ids": [topic_id],
        "numbers": [0],
    }
    txn = {"tc_id": 5, "sequence": 1}
    named: dict[str, object] = {
        "topic_ids": [topic_id],
        "numbers": [0],
        "first_offsets": [9_000],
        "last_offsets": [9_100],
    }
    large = txn | {"from_offset": _LARGE_MARKER - 5_000}
    stored = {
        "subscription_id": subscription_id,
        "cursor_version": 1,
        "dispatch_version": 1,
        "due_offset": 6,
        "next_deadline": None,
        "state": b"\x01",
        "durable": True,
    }
    alike = {
        "messages": 3,
        "bytes": 2,
        "firsts": [0, 1],
        "lasts": [0, 2],
        "bodies": [b"\x01", b"\x01"],
    }
    return [
        append(partition_id),
        append(partition_id, sequence_ids=30_000),
        Hot("append_plain", key | {"messages": 1, "body": b"\x01"}, 5),
        Hot(
            "append_ongoing",
            key | {"messages": 1, "body": b"\x01", "tc_id": 3, "sequence": 9},
            8,
        ),
        Hot("append_plain_alike", key | alike, 10),
        Hot("append_ongoing_alike", key | alike | {"tc_id": 3, "sequence": 9}, 12),
        append(partition_id, tc_ids=0, sequences=9, sequence_ids=1),
        append(partition_id, tc_ids=0, sequences=1003, sequence_ids=18),
        Hot("fetch", near | {"max_bytes": 10**6, "committed": True}, 45),
        Hot("fetch", near | {"max_bytes": 10**6, "committed": False}, 35),
        Hot("all_entries", near | {"max_bytes": 10**6}, 30),
        # From the first of 20 000 messages of open transactions on, to what stands behind them.
        ordered(key, from_offset=5),
        ordered(key, from_offset=_LARGE_MARKER),
        ordered(key, from_offset=_LARGE_MARKER, within=_LARGE_MARKER - 5000),
        Hot("aborted_overlapping", near, 10),
        Hot("aborted_index", key | index, 30),
        Hot("aborted_span_of", key | {"tc_id": 0, "sequence": 1000, "offset": 5}, 2),
        Hot("count_until", key | txn | {"from_offset": 5, "bounds": [5, 25], "limit": 20}, 45),
        Hot("ongoing_of_txn", key | {"tc_id": 0, "sequence": 9}, 5),
        Hot("end_txns_on", end, 20),
        Hot("status", key, 10),
        Hot("statuses", {"topic_id": topic_id, "first": 0, "last": 49}, 10),
        Hot("held_back", {"limit": 10}, 10),
        Hot("standing", {"late_ms": 1000}, 10),
        Hot("standing_of_partitions", {"limit": 10}, 10),
        Hot("history", key | {"since": timedelta(seconds=30)}, 100),
        Hot("offset_at", key | {"at": "2020-01-01T00:00:00Z"}, 40),
        Hot("next_ended", key | {"offset": 2}, 5),
        Hot("ended_along", key | {"places": [5, 10_000, _LARGE_MARKER]}, 6, adhoc=True),
        # One name, of thirty thousand batches.
        Hot("producers", key | {"limit": 10}, 10, adhoc=True),
        Hot("first_open_entries", held, 10),
        Hot("acks_held", {"tc_ids": [3], "sequences": [9]}, 5),
        Hot("newest_ack_step", key | {"subscription_id": subscription_id}, 5),
        Hot("entry_at", key | {"offset": 2}, 5),
        Hot("named_by", key | {"offsets": [5, 10_000, _LARGE_MARKER]}, 15),
        Hot("open_holdings", held, 5),
        Hot("joint_effect", held, 10),
        Hot(
            "open_in_partitions",
            {"tc_id": 3, "sequence": 9, "topic_ids": [topic_id], "numbers": [0]},
            5,
        ),
        Hot(
            "spans_still_open",
            {"holders": [partition_id], "tc_ids": [3], "sequences": [9], "first_offsets": [9]},
            5,
        ),
        Hot(
            "acks_still_open",
            {"holders": [subscription_id], "tc_ids": [3], "sequences": [9]},
            5,
        ),
        Hot("times_of_txn", named | txn | {"look": 20}, 26),
        Hot("writers", key | {"lower": 9_000, "upper": 9_010, "look": 20, "limit": 20}, 25),
        Hot("messages_of_txn", key | large | {"look": 10}, 15),
        Hot("open_spans", {"holder": -1, "tc_id": -1, "sequence": -1, "limit": 5}, 12),
        Hot(
            "deliverable",
            {"subscription_id": subscription_id, "topic_id": topic_id, "taken_over": True},
            10,
        ),
        Hot("store_dispatch", key | stored, 5),
        Hot("store_cursor", key | stored | {"mark_delete": 5, "acked": "{}"}, 5),
        *overview(key, topic_id),
        Hot("awaited_heads", {"partition_ids": [key["partition_id"]]}, 2),
        Hot("awaited_subscriptions", {"subscription_ids": [subscription_id]}, 10),
    ]


def overview(key: Mapping[str, object], topic_id: int) -> list[Hot]:
    """What lists of topics, subscriptions and snapshots ask, of the one topic that there is: of its
    20 000 unfinished transactions the first, of its samples one each five minutes."""
    names = {"topic": "", "name": "", "limit": 10}
    between = {"topic_id": topic_id, "name": SUBSCRIPTION.name, "lower": 0, "upper": 10}
    growth = {"parts": 12, "seconds": 300, "partitions": 32}
    listed = {"topic_id": topic_id, "lower": 0, "upper": 10}
    place = {"distance": 10**9, "topic": "", "number": 0, "sidecar": False}
    return [
        Hot("topic_summaries", {"topic_ids": [topic_id]}, 5),
        Hot("topic_growth", {"topic_ids": [topic_id], **growth}, 30),
        Hot("partitions_of_topic", listed | {"parts": 40, "segments": 1000}, 60),
        Hot("subscription_summaries", names | {"part": "", "long_ms": 60_000}, 5),
        Hot("readers_of_partitions", {"topic_id": topic_id, "numbers": [0]}, 5),
        Hot("recoveries_of", key, 5),
        Hot("snapshot_distances", place | {"part": "", "limit": 10}, 5),
        Hot("cursor_summaries", {**key, "topic_id": topic_id, "after": "", "limit": 10}, 5),
        Hot("ended_within", {**key, "from_offset": 2, "to_offset": 12}, 15),
        Hot("cursors_between", between, 5),
        Hot("held_by_transactions", {**between, "limit": 10}, 5),
    ]


#: A second of a time when nothing ended.
_NOTHING_ENDED = {
    "since": "2021-01-01T00:00:00Z",
    "until": "2021-01-01T00:00:01Z",
    "width": "10 seconds",
    "steps": 4,
}


def on_coordinator() -> list[Hot]:
    key: dict[str, object] = {"tc_id": 0, "sequence": 0}
    new = {"tc_id": 0, "owner": "o", "client": "", "client_host": None} | {
        "properties": "{}",
        "timeout_ms": 9,
    }
    why = {"reason": "client", "detail": None, "trace_parent": None}
    decide = {"decision": "COMMITTING", "owner": None} | why
    joined = {"owner": None, "topic_ids": [1], "topics": ["t"], "brokers": ["broker-1"]}
    many: dict[str, object] = {
        "tc_ids": [0, 1],
        "sequences": [0, 1],
        "decisions": ["ABORTING"] * 2,
        **why,
    }
    return [
        Hot("open_txn", new, 2),
        Hot("whole_txn", key, 4),
        Hot("whole_txns", {"tc_ids": [0, 1], "sequences": [0, 1]}, 4),
        Hot("count_open_of_owner", {"owner": "o1", "limit": 50}, 52),
        Hot("count_open_of_owner", {"owner": "nobody", "limit": 50}, 2),
        Hot("archived_txns", {"tc_ids": [0], "sequences": [7], "owner": None}, 2),
        Hot("archive_txns", {"after_ms": 3_600_000, "keep": 10**6, "limit": 100}, 5),
        Hot("txn_status", key, 2),
        Hot("join_partitions", key | joined | {"partitions": [0]}, 4),
        Hot("join_subscriptions", key | joined | {"subscriptions": ["s"]}, 4),
        Hot("txn_statuses", {"tc_ids": [0, 1], "sequences": [0, 1]}, 4),
        Hot("decide", key | decide, 4),
        Hot("lock_headers", {"tc_ids": [0, 1], "sequences": [0, 1]}, 4),
        Hot("decide_many", many, 4),
        Hot("expire_txns", {"limit": 1000}, 5, adhoc=True),
        Hot("due_coordinators", {}, 5, adhoc=True),
        Hot("due_ends", {"tc_ids": [1, 2], "limit": 1000}, 10),
        Hot("due_ends", {"tc_ids": [3], "limit": 1000}, 15),
        # Of 20 000 half have not ended; those that have are not looked at.
        Hot("live_of_coordinators", {}, 10_002),
        Hot("live_ages", {}, 5005),
        Hot("ends_between", _NOTHING_ENDED, 5, adhoc=True),
        Hot("ends_of_coordinators", _NOTHING_ENDED, 5, adhoc=True),
        # What is open, of all coordinators at most.
        Hot("timeout_wheel", {"tc_id": 1, "bounds": [0.0, 10.0]}, 5_005),
        Hot("holdings_of_txns", {"tc_ids": [0, 1], "sequences": [0, 1]}, 4),
        Hot("open_members", {"tc_ids": [0, 1], "sequences": [0, 1], "limit": 100}, 4),
        Hot("ack_brokers", {"tc_ids": [0, 1], "sequences": [0, 1]}, 4),
        Hot("durations_by_owner", {"sample": 100, "limit": 5}, 105),
        Hot("live_txns", {"tc_id": -1, "sequence": -1, "limit": 5}, 8),
        Hot("recent_ends", {"seconds": 3600, "limit": 50}, 55),
        Hot("confirm_ack", key | {"call_id": 7}, 4),
        Hot("confirmed_acks", {"tc_ids": [0], "sequences": [0]}, 4),
        Hot("record_ends", _CONCLUDED, 5),
    ]


@contextmanager
def undone(session: Session) -> Iterator[None]:
    session.script("BEGIN")
    try:
        yield
    finally:
        session.script("ROLLBACK")


@contextmanager
def connected(database: Database) -> Iterator[Session]:
    with database._borrowed() as connection:
        yield Session(connection, database._queries)


def counters(session: Session, tables: Sequence[str] = _TABLES) -> dict[str, tuple[int, int]]:
    """Sequential scans and rows read so far, by table; PostgreSQL sums up over transactions."""
    rows = session._connection.execute(
        "SELECT relname, seq_scan, seq_tup_read + coalesce(idx_tup_fetch, 0) AS read"
        " FROM pg_stat_xact_user_tables WHERE relname = ANY (%s)",
        [list(tables)],
    ).fetchall()
    return {row.relname: (row.seq_scan, row.read) for row in rows}


def check(session: Session, statements: list[Hot], *, tables: Sequence[str] = _TABLES) -> None:
    for hot in statements:
        with undone(session):
            before = counters(session, tables)
            hot.run(session)
            after = counters(session, tables)
        for table, (scans, read) in after.items():
            scans_before, read_before = before.get(table, (0, 0))
            assert scans == scans_before, f"{hot.name} scans {table}"
            assert read - read_before <= hot.rows, f"{hot.name} on {table}"


def warm(session: Session, statements: list[Hot]) -> None:
    """Let psycopg prepare and PostgreSQL keep a generic plan, for these all but empty tables."""
    for hot in statements:
        for _ in range(12):
            with undone(session):
                hot.run(session)


#: Rows of _FILL_BROKER, before the head has moved on.
EMPTY_BROKER = (
    """
    DELETE FROM broker.entry e USING broker.partition_live l
    WHERE e.partition_id = l.partition_id AND e.last_offset >= l.next_offset
    """,
    """
    DELETE FROM broker.txn_index i USING broker.partition_live l
    WHERE i.partition_id = l.partition_id AND i.last_offset >= l.next_offset
    """,
    "DELETE FROM broker.ongoing_txn",
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


#: As many as the table with the most of them has.
INDEXES = 6


def make_small(database: Database, place: int) -> None:
    """Make one index of each table, the one at this place of their names, as small as its rows."""
    indexes = sql(
        database,
        "SELECT format('%%I.%%I', schemaname, indexname) AS name,"
        "    row_number() OVER (PARTITION BY tablename ORDER BY indexname) - 1 AS place"
        " FROM pg_indexes WHERE schemaname = 'broker' AND tablename = ANY (%s)",
        _TABLES,
    )
    assert max(index.place for index in indexes) == INDEXES - 1
    for index in indexes:
        if index.place == place:
            sql(database, f"REINDEX INDEX {index.name}")


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
    database = engine._database
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
    database = engine._database
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
        engine._database if function.startswith("coordinator") else engine._brokers.get("broker-1")
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
        # The first has orphans to pass over, and stops at one of them.
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
    step: dict[str, object] = {"partition_id": location.partition_id, "limit": 2, "held_too": False}
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
