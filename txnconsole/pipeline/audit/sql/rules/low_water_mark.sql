-- A low water mark covers a transaction that has not ended, or that was never issued: messages and
-- acknowledgements of it are refused. Coordinators are read after the brokers, and what a mark covers has
-- ended before it is handed out.
WITH live AS (
    SELECT i.tc_id, min(h.sequence) AS lowest, max(i.next_sequence) AS next_sequence
    FROM {issued} i
    LEFT JOIN {headers} h ON h.tc_id = i.tc_id AND h.status NOT IN ('COMMITTED', 'ABORTED')
    GROUP BY i.tc_id
)
SELECT m.broker, m.log_id, m.tc_id, v.lowest AS sequence, CAST(NULL AS bigint) AS at_offset,
    named_struct(
        'subscription', m.subscription, 'low_water_mark', m.low_water_mark,
        'lowest_that_has_not_ended', v.lowest, 'next_sequence', v.next_sequence
    ) AS evidence
FROM (
    SELECT broker, log_id, CAST(NULL AS string) AS subscription, tc_id, low_water_mark FROM {marks}
    UNION ALL
    SELECT broker, log_id, subscription, tc_id, low_water_mark FROM {ack_marks}
) m
JOIN live v ON v.tc_id = m.tc_id
WHERE m.low_water_mark >= coalesce(v.lowest, v.next_sequence)
