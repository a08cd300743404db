"""The hot statements of the databases, and how many rows each may read.

Counted by PostgreSQL itself within one transaction (``pg_stat_xact_user_tables``), so that
statements within functions count as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from engine.postgres.database import Database
from engine.postgres.session import Session
from tests.engine.support import (
    SUBSCRIPTION,
    sql,
)

TABLES = [
    *("entry", "txn_index", "ongoing_txn", "ended_txn", "dispatch", "position_sample"),
    *("dead_letter", "ended_ack_txn", "transaction", "txn_partition"),
]
#: After two messages of three, an aborted one, its marker, and what is filled in.
LARGE_MARKER = 5 + 50_000
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
    large = txn | {"from_offset": LARGE_MARKER - 5_000}
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
    #: A mark that passes the lowest of very many open transactions.
    passing: dict[str, object] = {
        "mark_tcs": [3],
        "marks": [9],
        "after_tc": -1,
        "after_sequence": -1,
        "limit": 10,
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
        ordered(key, from_offset=LARGE_MARKER),
        ordered(key, from_offset=LARGE_MARKER, within=LARGE_MARKER - 5000),
        Hot("aborted_overlapping", near, 10),
        Hot("aborted_index", key | index, 30),
        Hot("aborted_span_of", key | {"tc_id": 0, "sequence": 1000, "offset": 5}, 2),
        Hot("count_until", key | txn | {"from_offset": 5, "bounds": [5, 25], "limit": 20}, 45),
        Hot("ongoing_of_txn", key | {"tc_id": 0, "sequence": 9}, 5),
        Hot("end_txns_on", end, 20),
        Hot("orphans_of_partition", passing | {"topic_id": topic_id, "number": 0}, 30),
        Hot(
            "orphans_of_subscription",
            passing | {"topic_id": topic_id, "name": SUBSCRIPTION.name},
            10,
        ),
        Hot("status", key, 10),
        Hot("statuses", {"topic_id": topic_id, "first": 0, "last": 49}, 10),
        Hot("held_back", {"limit": 10}, 10),
        Hot("standing", {"late_ms": 1000}, 10),
        Hot("standing_of_partitions", {"limit": 10}, 10),
        Hot("history", key | {"since": timedelta(seconds=30)}, 100),
        Hot("offset_at", key | {"at": "2020-01-01T00:00:00Z"}, 40),
        Hot("next_ended", key | {"offset": 2}, 5),
        Hot("ended_along", key | {"places": [5, 10_000, LARGE_MARKER]}, 6, adhoc=True),
        # One name, of thirty thousand batches.
        Hot("producers", key | {"limit": 10}, 10, adhoc=True),
        Hot("first_open_entries", held, 10),
        Hot("acks_held", {"tc_ids": [3], "sequences": [9]}, 5),
        Hot("newest_ack_step", key | {"subscription_id": subscription_id}, 5),
        Hot("entry_at", key | {"offset": 2}, 5),
        Hot("named_by", key | {"offsets": [5, 10_000, LARGE_MARKER]}, 15),
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
        Hot("stamps", {"subscription_ids": [subscription_id]}, 10),
    ]


def overview(key: Mapping[str, object], topic_id: int) -> list[Hot]:
    """What lists of topics, subscriptions and snapshots ask, of the one topic that there is: of its
    20 000 unfinished transactions the first, of its samples one each five minutes."""
    names = {"topic": "", "name": "", "limit": 10}
    between = {"topic_id": topic_id, "name": SUBSCRIPTION.name, "lower": 0, "upper": 10}
    traffic = {"parts": 12, "seconds": 300, "partitions": 32}
    listed = {"topic_id": topic_id, "lower": 0, "upper": 10}
    place = {"distance": 10**9, "topic": "", "number": 0, "sidecar": False}
    return [
        Hot("topic_summaries", {"topic_ids": [topic_id]}, 5),
        Hot("topic_traffic", {"topic_ids": [topic_id], **traffic}, 30),
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
        Hot("open_subscriptions", {"tc_ids": [0, 1], "sequences": [0, 1], "limit": 100}, 4),
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
    with database._connections.lent() as connection:
        yield Session(connection, database._queries)


def counters(session: Session, tables: Sequence[str] = TABLES) -> dict[str, tuple[int, int]]:
    """Sequential scans and rows read so far, by table; PostgreSQL sums up over transactions."""
    rows = session._connection.execute(
        "SELECT relname, seq_scan, seq_tup_read + coalesce(idx_tup_fetch, 0) AS read"
        " FROM pg_stat_xact_user_tables WHERE relname = ANY (%s)",
        [list(tables)],
    ).fetchall()
    return {row.relname: (row.seq_scan, row.read) for row in rows}


def check(session: Session, statements: list[Hot], *, tables: Sequence[str] = TABLES) -> None:
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


#: Deletes what a test has filled in, which lies beyond the head.
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
#: As many as the table with the most of them has.
INDEXES = 6


def make_small(database: Database, place: int) -> None:
    """Make one index of each table, the one at this place of their names, as small as its rows."""
    indexes = sql(
        database,
        "SELECT format('%%I.%%I', schemaname, indexname) AS name,"
        "    row_number() OVER (PARTITION BY tablename ORDER BY indexname) - 1 AS place"
        " FROM pg_indexes WHERE schemaname = 'broker' AND tablename = ANY (%s)",
        TABLES,
    )
    assert max(index.place for index in indexes) == INDEXES - 1
    for index in indexes:
        if index.place == place:
            sql(database, f"REINDEX INDEX {index.name}")
