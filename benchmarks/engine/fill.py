"""Databases as they are after long use, filled by SQL in one go.

A filled partition has, for each ended transaction, one message and one marker, a tenth of them
aborted; then one message of each open one. All of them began after an open one that holds the low
water mark back, so the partition remembers every end. Shared with tests/engine/sql.
"""

from __future__ import annotations

from collections.abc import Mapping

import psycopg

from engine import Engine
from engine.model import batch
from engine.model.message import NewMessage
from engine.model.topic_name import PartitionName

_HEADERS = """
INSERT INTO coordinator.transaction (
    tc_id, sequence, status, owner, client, properties, opened_at, timeout_ms, deadline,
    decided_at, ended_at, end_reason
)
SELECT
    0, c.next_sequence + n, s.status, 'o' || n %% 7, '', '{}', now() - interval '1 hour', 3600000,
    now() + interval '1 day',
    CASE WHEN s.status <> 'OPEN' THEN now() - interval '1 minute' END,
    CASE WHEN s.status <> 'OPEN' THEN now() - interval '1 minute' END,
    CASE WHEN s.status <> 'OPEN' THEN 'client' END
FROM coordinator.coordinator c, generate_series(0, %(ended)s + %(open)s - 1) n, LATERAL (
    SELECT CASE WHEN n >= %(ended)s THEN 'OPEN' WHEN n %% 10 = 0 THEN 'ABORTED' ELSE 'COMMITTED'
        END::coordinator.txn_status AS status) s
WHERE c.tc_id = 0
"""
_PARTICIPANTS = """
INSERT INTO coordinator.txn_partition (
    tc_id, sequence, topic_id, topic, partition, broker, state
)
SELECT
    0, c.next_sequence + n, %(topic_id)s, %(topic)s, %(partition)s, %(broker)s,
    CASE WHEN n >= %(ended)s THEN 'pending' WHEN n %% 10 = 0 THEN 'aborted' ELSE 'committed' END
FROM coordinator.coordinator c, generate_series(0, %(ended)s + %(open)s - 1) n
WHERE c.tc_id = 0
"""
_LOG = """
INSERT INTO coordinator.transaction_log (tc_id, sequence, metadata_op, new_status)
SELECT 0, c.next_sequence + n, 'NEW', 'OPEN'
FROM coordinator.coordinator c, generate_series(0, %(ended)s + %(open)s - 1) n WHERE c.tc_id = 0
"""
_IDS = """
UPDATE coordinator.coordinator SET next_sequence = next_sequence + %(ended)s + %(open)s
WHERE tc_id = 0 RETURNING next_sequence
"""
#: Offsets go on from the head's; %(first)s is the first transaction's sequence.
_ENTRIES = """
INSERT INTO broker.entry (
    partition_id, last_offset, first_offset, ledger_id, kind, tc_id, sequence, publish_time, body
)
SELECT
    l.partition_id, l.next_offset + n, l.next_offset + n, l.ledger_id,
    CASE WHEN n %% 2 = 0 OR n >= 2 * %(ended)s THEN 'D' WHEN n %% 20 = 1 THEN 'A' ELSE 'C'
        END::"char",
    0,
    %(first)s + CASE WHEN n < 2 * %(ended)s THEN n / 2 ELSE n - %(ended)s END,
    now(),
    CASE WHEN n %% 2 = 0 OR n >= 2 * %(ended)s THEN %(body)s::bytea END
FROM broker.partition_live l, generate_series(0::bigint, 2 * %(ended)s + %(open)s - 1) n
WHERE l.partition_id = %(partition_id)s
"""
_INDEX = """
INSERT INTO broker.txn_index (
    partition_id, last_offset, first_offset, last_stable_offset, ledger_id, tc_id, sequence, aborted
)
SELECT
    l.partition_id, l.next_offset + 2 * n + 1, l.next_offset + 2 * n, l.next_offset + 2 * n + 2,
    l.ledger_id, 0, %(first)s + n, n %% 10 = 0
FROM broker.partition_live l, generate_series(0::bigint, %(ended)s - 1) n
WHERE l.partition_id = %(partition_id)s
"""
_ENDED = """
INSERT INTO broker.ended_txn (
    partition_id, tc_id, sequence, aborted, marker_offset, first_offset, last_offset, messages
)
SELECT
    l.partition_id, 0, %(first)s + n, n %% 10 = 0, l.next_offset + 2 * n + 1,
    l.next_offset + 2 * n, l.next_offset + 2 * n, 1
FROM broker.partition_live l, generate_series(0::bigint, %(ended)s - 1) n
WHERE l.partition_id = %(partition_id)s
"""
_ONGOING = """
INSERT INTO broker.ongoing_txn (
    partition_id, tc_id, sequence, first_offset, last_offset, messages, first_append_at
)
SELECT
    l.partition_id, 0, %(first)s + n, l.next_offset + n + %(ended)s, l.next_offset + n + %(ended)s,
    1, now()
FROM broker.partition_live l,
    generate_series(%(ended)s::bigint, %(ended)s::bigint + %(open)s - 1) n
WHERE l.partition_id = %(partition_id)s
"""
_HEAD = """
UPDATE broker.partition_live SET
    next_offset = next_offset + 2 * %(ended)s + %(open)s,
    segment_entries = segment_entries + 2 * %(ended)s + %(open)s,
    segment_bytes = segment_bytes + (%(ended)s + %(open)s) * length(%(body)s::bytea),
    first_ongoing_offset = CASE WHEN %(open)s > 0
        THEN coalesce(first_ongoing_offset, next_offset + 2 * %(ended)s)
        ELSE first_ongoing_offset END,
    ongoing_txns = ongoing_txns + %(open)s,
    aborted_txns = aborted_txns + (%(ended)s + 9) / 10,
    changes = changes + %(ended)s + %(open)s
WHERE partition_id = %(partition_id)s
"""
_BODY = batch.encode([NewMessage(payload=b"x" * 100)])


def fill_coordinator(
    urls: Mapping[str, str], engine: Engine, partition: PartitionName, *, ended: int, open_txns: int
) -> int:
    """Add transactions with one participant each to coordinator 0; answers the first's sequence.

    ``urls`` are the databases of the engine, ``coordinator`` and the brokers by name.
    """
    topic = engine.topics.get(partition.topic)
    counts = {
        "ended": ended,
        "open": open_txns,
        "topic_id": topic.topic_id,
        "topic": str(topic.name),
        "partition": partition.number,
        "broker": topic.brokers[partition.number],
    }
    with _flushed(urls["coordinator"]) as connection:
        for statement in (_HEADERS, _PARTICIPANTS, _LOG):
            connection.execute(statement, counts)
        row = connection.execute(_IDS, counts).fetchone()
    _settle(urls["coordinator"])
    return row[0] - ended - open_txns if row else 0


def fill_partition(
    urls: Mapping[str, str],
    engine: Engine,
    partition: PartitionName,
    *,
    ended: int,
    open_txns: int,
    first: int = 0,
) -> None:
    """Add what transactions of coordinator 0 from the sequence ``first`` on have written."""
    location = engine.log.locate(partition)
    counts = {
        "ended": ended,
        "open": open_txns,
        "partition_id": location.partition_id,
        "first": first,
        "body": _BODY,
    }
    with _flushed(urls[location.database.name]) as connection:
        for statement in (_ENTRIES, _INDEX, _ENDED, _ONGOING, _HEAD):
            connection.execute(statement, counts)
    _settle(urls[location.database.name])


def _flushed(url: str, *, autocommit: bool = False) -> psycopg.Connection:
    """A connection whose commits are flushed, on a test's server too. A vacuum marks nothing as
    visible to all whose commit, or that of a neighbour (the counts of other tables), is not."""
    return psycopg.connect(url, autocommit=autocommit, options="-c synchronous_commit=on")


def _settle(url: str) -> None:
    """What autovacuum and the checkpointer would do soon: what is measured next does not wait for
    the disk to take a gigabyte that was written at once."""
    with _flushed(url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")
