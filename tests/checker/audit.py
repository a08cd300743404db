"""The databases themselves: the state that the engine keeps must be what its logs say.

Each statement answers rows that must not be. They read everything, so they are for tests. Run them
between commands, after a crash once the partitions have been rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import psycopg
from psycopg.rows import dict_row

#: Offsets of each entry, with the transaction's marker in that partition.
_BROKER: Mapping[str, str] = {
    "offsets have no gaps and no overlaps": """
        SELECT * FROM (
            SELECT partition_id, first_offset, last_offset, lag(last_offset, 1, -1)
                OVER (PARTITION BY partition_id ORDER BY last_offset) AS before
            FROM broker.entry JOIN broker.partition p USING (partition_id)
            WHERE p.log_start_offset = 0 AND p.buffer = 'marker' AND p.topic !~ '/__'
        ) e WHERE first_offset <> before + 1
    """,
    "a transaction has at most one marker in a partition": """
        SELECT partition_id, tc_id, sequence, array_agg(last_offset) AS markers
        FROM broker.entry JOIN broker.partition p USING (partition_id)
        WHERE kind <> 'D' AND p.buffer = 'marker'
        GROUP BY 1, 2, 3 HAVING count(*) > 1
    """,
    "no data of a transaction after its marker": """
        SELECT d.partition_id, d.tc_id, d.sequence, d.first_offset, m.last_offset AS marker
        FROM broker.entry d JOIN broker.entry m
            ON m.partition_id = d.partition_id AND m.tc_id = d.tc_id AND m.sequence = d.sequence
            AND m.kind <> 'D' AND m.last_offset < d.first_offset
        JOIN broker.partition p ON p.partition_id = d.partition_id
        WHERE d.kind = 'D' AND p.buffer = 'marker'
    """,
    "the head stands behind the last entry": """
        SELECT l.partition_id, l.next_offset, e.last FROM broker.partition_live l
        JOIN (SELECT partition_id, max(last_offset) AS last FROM broker.entry GROUP BY 1) e
            USING (partition_id)
        JOIN broker.partition p USING (partition_id)
        WHERE l.next_offset <> e.last + 1 AND p.buffer = 'marker'
    """,
    "ongoing transactions are those with data and without a marker": """
        WITH expected AS (
            SELECT d.partition_id, d.tc_id, d.sequence, min(d.first_offset) AS first_offset,
                max(d.last_offset) AS last_offset,
                sum(d.last_offset - d.first_offset + 1)::bigint AS messages
            FROM broker.entry d JOIN broker.partition_live USING (partition_id)
            JOIN broker.partition p USING (partition_id)
            WHERE d.kind = 'D' AND d.tc_id IS NOT NULL AND p.buffer = 'marker' AND NOT EXISTS (
                SELECT FROM broker.entry m
                WHERE m.partition_id = d.partition_id AND m.tc_id = d.tc_id
                AND m.sequence = d.sequence AND m.kind <> 'D'
            )
            GROUP BY 1, 2, 3
        ), known AS (
            SELECT o.partition_id, o.tc_id, o.sequence, o.first_offset, o.last_offset, o.messages
            FROM broker.ongoing_txn o JOIN broker.partition p USING (partition_id)
            WHERE p.buffer = 'marker'
        )
        (TABLE expected EXCEPT TABLE known) UNION ALL (TABLE known EXCEPT TABLE expected)
    """,
    "the stable position is held by the lowest ongoing transaction": """
        SELECT l.partition_id, l.first_ongoing_offset, o.first, l.ongoing_txns, o.count
        FROM broker.partition_live l JOIN broker.partition p USING (partition_id)
        LEFT JOIN (
            SELECT partition_id, min(first_offset) AS first, count(*) AS count
            FROM broker.ongoing_txn GROUP BY 1
        ) o USING (partition_id)
        WHERE p.buffer = 'marker' AND (l.first_ongoing_offset, l.ongoing_txns)
            IS DISTINCT FROM (o.first, coalesce(o.count, 0))
    """,
    "the index has exactly the ended transactions with data, at their markers": """
        WITH expected AS (
            SELECT d.partition_id, m.last_offset, min(d.first_offset) AS first_offset, d.tc_id,
                d.sequence, m.kind = 'A' AS aborted
            FROM broker.entry d JOIN broker.entry m
                ON m.partition_id = d.partition_id AND m.tc_id = d.tc_id
                AND m.sequence = d.sequence AND m.kind <> 'D'
            JOIN broker.partition p ON p.partition_id = d.partition_id
            WHERE d.kind = 'D' AND p.buffer = 'marker' AND p.log_start_offset = 0
            GROUP BY d.partition_id, m.last_offset, d.tc_id, d.sequence, m.kind
        ), known AS (
            SELECT i.partition_id, i.last_offset, i.first_offset, i.tc_id, i.sequence, i.aborted
            FROM broker.txn_index i JOIN broker.partition p USING (partition_id)
            WHERE p.buffer = 'marker' AND p.log_start_offset = 0
        )
        (TABLE expected EXCEPT TABLE known) UNION ALL (TABLE known EXCEPT TABLE expected)
    """,
    "an index row has the stable offset that its marker left behind": """
        WITH span AS MATERIALIZED (
            SELECT partition_id, min(first_offset) FILTER (WHERE kind = 'D') AS first_offset,
                coalesce(max(last_offset) FILTER (WHERE kind <> 'D'), 2^62) AS marker
            FROM broker.entry WHERE tc_id IS NOT NULL GROUP BY partition_id, tc_id, sequence
        )
        SELECT i.partition_id, i.last_offset, i.last_stable_offset, min(s.first_offset) AS first
        FROM broker.txn_index i JOIN broker.partition p USING (partition_id)
        LEFT JOIN span s ON s.partition_id = i.partition_id
            AND s.first_offset < i.last_offset AND s.marker > i.last_offset
        WHERE p.buffer = 'marker' AND p.log_start_offset = 0
        GROUP BY i.partition_id, i.last_offset, i.last_stable_offset
        HAVING i.last_stable_offset <> coalesce(min(s.first_offset), i.last_offset + 1)
    """,
    "what is remembered of an end is what its marker says": """
        SELECT e.* FROM broker.ended_txn e
        LEFT JOIN broker.entry m
            ON m.partition_id = e.partition_id AND m.last_offset = e.marker_offset
        JOIN broker.partition p ON p.partition_id = e.partition_id
        WHERE p.buffer = 'marker' AND e.marker_offset IS NOT NULL
        AND (m.kind = 'A') IS DISTINCT FROM e.aborted
    """,
    "nobody is ongoing at or below a low water mark": """
        SELECT o.* FROM broker.ongoing_txn o JOIN broker.low_water_mark w
            ON w.partition_id = o.partition_id AND w.tc_id = o.tc_id
            AND o.sequence <= w.low_water_mark
    """,
    "two transactions never hold the same message": """
        SELECT a.subscription_id, a.partition_id, a.tc_id, a.sequence, b.tc_id AS other_tc,
            b.sequence AS other, a.ranges * b.ranges AS both
        FROM broker.pending_ack a JOIN broker.pending_ack b
            ON a.subscription_id = b.subscription_id AND a.partition_id = b.partition_id
            AND (a.tc_id, a.sequence) < (b.tc_id, b.sequence) AND a.ranges && b.ranges
    """,
    "no message is both held and deleted": """
        SELECT a.*, c.mark_delete, c.acked FROM broker.pending_ack a
        JOIN broker.cursor c USING (subscription_id, partition_id)
        WHERE a.ranges && (c.acked + int8multirange(int8range(0, c.mark_delete + 1)))
    """,
    "what is held is what the log of acknowledgements says": """
        WITH steps AS (
            SELECT g.subscription_id, g.partition_id, g.tc_id, g.sequence, g.op,
                g.log_id, r.o
            FROM broker.pending_ack_log g, unnest(g.ranges) AS u (range),
                generate_series(lower(u.range), upper(u.range) - 1) AS r (o)
        ), expected AS (
            SELECT subscription_id, partition_id, tc_id, sequence, o FROM steps
            JOIN broker.cursor c USING (subscription_id, partition_id)
            WHERE o > c.mark_delete
            GROUP BY 1, 2, 3, 4, 5
            -- A message may be claimed by several calls of its transaction.
            HAVING (array_agg(op ORDER BY log_id DESC))[1] = 'ACK'
        ), known AS (
            SELECT a.subscription_id, a.partition_id, a.tc_id, a.sequence, r.o
            FROM broker.pending_ack a JOIN broker.cursor c USING (subscription_id, partition_id),
                unnest(a.ranges) AS u (range),
                generate_series(lower(u.range), upper(u.range) - 1) AS r (o)
            WHERE r.o > c.mark_delete
        )
        (TABLE expected EXCEPT TABLE known) UNION ALL (TABLE known EXCEPT TABLE expected)
    """,
    "what a committed transaction had acknowledged is deleted": """
        SELECT g.* FROM broker.pending_ack_log g
        JOIN broker.cursor c USING (subscription_id, partition_id)
        WHERE g.op = 'COMMIT'
        AND NOT g.ranges <@ (c.acked + int8multirange(int8range(0, c.mark_delete + 1)))
    """,
    "an acknowledgement that has ended holds nothing": """
        SELECT a.* FROM broker.pending_ack a JOIN broker.ended_ack_txn e
            USING (subscription_id, tc_id, sequence)
    """,
}

_COORDINATOR: Mapping[str, str] = {
    "a header's status is the last of its log": """
        SELECT t.tc_id, t.sequence, t.status, g.steps FROM coordinator.transaction t
        LEFT JOIN (
            SELECT tc_id, sequence, array_agg(new_status ORDER BY log_id) AS steps
            FROM coordinator.transaction_log WHERE new_status IS NOT NULL GROUP BY 1, 2
        ) g USING (tc_id, sequence)
        WHERE g.steps IS NULL OR g.steps[cardinality(g.steps)] <> t.status
    """,
    "the log has lawful steps only": """
        SELECT * FROM (
            SELECT tc_id, sequence, metadata_op, expected_status, new_status,
                lag(new_status) OVER (PARTITION BY tc_id, sequence ORDER BY log_id) AS before
            FROM coordinator.transaction_log WHERE new_status IS NOT NULL
        ) g WHERE expected_status IS DISTINCT FROM before OR NOT (
            (before IS NULL AND metadata_op = 'NEW' AND new_status = 'OPEN')
            OR coalesce((before::text, new_status::text) IN (
                ('OPEN', 'COMMITTING'), ('OPEN', 'ABORTING'), ('COMMITTING', 'COMMITTED'),
                ('ABORTING', 'ABORTED')
            ), false)
        )
    """,
    "an id is never above what has been issued": """
        SELECT t.tc_id, t.sequence FROM coordinator.transaction t
        JOIN coordinator.coordinator c USING (tc_id) WHERE t.sequence >= c.next_sequence
    """,
    "an ended transaction's participants have all ended the same way": """
        SELECT t.tc_id, t.sequence, t.status, p.topic, p.state FROM coordinator.transaction t
        JOIN (
            SELECT tc_id, sequence, topic, state FROM coordinator.txn_partition
            UNION ALL SELECT tc_id, sequence, topic, state FROM coordinator.txn_subscription
        ) p USING (tc_id, sequence)
        WHERE t.status IN ('COMMITTED', 'ABORTED') AND p.state <> lower(t.status::text)
    """,
    "only what has been decided has participants that ended": """
        SELECT t.tc_id, t.sequence, t.status, p.topic, p.state FROM coordinator.transaction t
        JOIN coordinator.txn_partition p USING (tc_id, sequence)
        WHERE t.status = 'OPEN' AND p.state <> 'pending'
    """,
}


def audit(coordinator_url: str, broker_urls: Mapping[str, str]) -> list[str]:
    """What contradicts what; empty when all is well."""
    found = [*_ask("coordinator", coordinator_url, _COORDINATOR)]
    for name, url in broker_urls.items():
        found += _ask(name, url, _BROKER)
    return [*found, *_across(coordinator_url, broker_urls)]


def _ask(name: str, url: str, statements: Mapping[str, str]) -> Iterator[str]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        # One snapshot for all of them, so that others may go on working meanwhile.
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        for promise, statement in statements.items():
            for row in connection.execute(statement.encode()).fetchmany(3):
                yield f"{name}: {promise}: {row}"


def _across(coordinator_url: str, broker_urls: Mapping[str, str]) -> Iterator[str]:
    """Markers against decisions. Brokers are read first: a decision comes before its markers."""
    markers = []
    for name, url in broker_urls.items():
        with psycopg.connect(url) as connection:
            markers += [
                (name, *row)
                for row in connection.execute(
                    "SELECT tc_id, sequence, p.topic || ':' || p.number, kind = 'C'"
                    " FROM broker.entry JOIN broker.partition p USING (partition_id)"
                    " WHERE kind <> 'D'"
                )
            ]
    with psycopg.connect(coordinator_url) as connection:
        statuses = {
            (tc_id, sequence): status
            for tc_id, sequence, status in connection.execute(
                "SELECT tc_id, sequence, status::text FROM coordinator.transaction UNION ALL"
                " SELECT tc_id, (chunk << 14) + n,"
                " CASE get_bit(aborted, n) WHEN 1 THEN 'ABORTED' ELSE 'COMMITTED' END"
                " FROM coordinator.archive, generate_series(0, (1 << 14) - 1) AS g (n)"
                " WHERE get_bit(ended, n) = 1"
            )
        }
    for name, tc_id, sequence, partition, committed in markers:
        status = statuses.get((tc_id, sequence), "unknown to its coordinator")
        if not status.startswith("COMMIT" if committed else "ABORT"):
            word = "commit" if committed else "abort"
            yield f"{name}: {word} marker in {partition} of {tc_id}:{sequence}, which is {status}"
