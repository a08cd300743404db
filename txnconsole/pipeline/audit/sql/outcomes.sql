-- How each transaction that a log or a subscription names has ended, by its coordinator: by its
-- header or, when that is gone, by its two bits in the archive. A status is null when the coordinator
-- knows nothing. ended_before: it had ended before the first broker was read.
WITH named AS (
    SELECT tc_id, sequence FROM {spans}
    UNION SELECT tc_id, sequence FROM {pending_acks}
    UNION SELECT tc_id, sequence FROM {ack_steps}
    UNION SELECT tc_id, sequence FROM {ended_acks}
    UNION SELECT tc_id, sequence FROM {fence}
)
SELECT n.tc_id, n.sequence,
    coalesce(
        h.status,
        CASE getbit(
            CAST(conv(hex(substring(a.aborted, CAST(n.sequence % 16384 DIV 8 AS int) + 1, 1)), 16, 10)
                AS bigint),
            CAST(n.sequence % 8 AS int)
        ) WHEN 1 THEN 'ABORTED' WHEN 0 THEN 'COMMITTED' END
    ) AS status,
    coalesce(h.ended_before, b.tc_id IS NOT NULL) AS ended_before,
    h.tc_id IS NULL AND a.tc_id IS NOT NULL AS archived
FROM named n
LEFT JOIN {headers} h ON h.tc_id = n.tc_id AND h.sequence = n.sequence
LEFT JOIN {archive} a ON a.tc_id = n.tc_id AND a.chunk = n.sequence DIV 16384
    AND getbit(
        CAST(conv(hex(substring(a.ended, CAST(n.sequence % 16384 DIV 8 AS int) + 1, 1)), 16, 10)
            AS bigint),
        CAST(n.sequence % 8 AS int)
    ) = 1
LEFT JOIN {archived_before} b ON b.tc_id = n.tc_id AND b.chunk = n.sequence DIV 16384
    AND getbit(
        CAST(conv(hex(substring(b.ended, CAST(n.sequence % 16384 DIV 8 AS int) + 1, 1)), 16, 10)
            AS bigint),
        CAST(n.sequence % 8 AS int)
    ) = 1
