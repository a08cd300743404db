-- Decided transactions by the minute of their decision, for each coordinator, client, owner and topic.
-- A transaction counts once for each topic that it wrote to. begin_commit: from its begin to the
-- decision; commit_visible: from there until every participant had carried it out, of those that have.
WITH txn AS (
    SELECT tc_id, sequence, owner, client, date_trunc('minute', decided_at) AS at,
        status IN ('COMMITTING', 'COMMITTED') AS committed,
        unix_millis(decided_at) - unix_millis(opened_at) AS begin_ms,
        unix_millis(ended_at) - unix_millis(decided_at) AS visible_ms
    FROM {headers}
    WHERE decided_at >= timestamp {since} AND decided_at < timestamp {until}
),
named AS (
    SELECT at, committed, begin_ms, visible_ms, 'coordinator' AS dimension,
        CAST(tc_id AS string) AS name FROM txn
    UNION ALL SELECT at, committed, begin_ms, visible_ms, 'owner', owner FROM txn
    UNION ALL SELECT at, committed, begin_ms, visible_ms, 'client', client FROM txn
        WHERE client <> ''
    UNION ALL SELECT t.at, t.committed, t.begin_ms, t.visible_ms, 'topic', p.topic
    FROM txn t JOIN (
        SELECT DISTINCT tc_id, sequence, topic FROM {participants} WHERE messages > 0
    ) p ON p.tc_id = t.tc_id AND p.sequence = t.sequence
)
SELECT at, dimension, name,
    count_if(committed) AS committed, count_if(NOT committed) AS aborted,
    kll_sketch_agg_bigint(begin_ms) FILTER (WHERE committed) AS begin_commit,
    kll_sketch_agg_bigint(visible_ms) FILTER (WHERE committed) AS commit_visible
FROM named GROUP BY at, dimension, name
