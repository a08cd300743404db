-- What a transaction holds of a subscription is something else than the pending-ack log says.
WITH found AS (
    SELECT broker, log_id, subscription, tc_id, sequence, ack_type, lower, upper
    FROM {pending_acks}
),
differs AS (
    SELECT f.*, true AS stands FROM found f
    LEFT ANTI JOIN {held_by_log} h ON h.broker = f.broker AND h.log_id = f.log_id
        AND h.subscription = f.subscription AND h.tc_id = f.tc_id AND h.sequence = f.sequence
        AND h.ack_type = f.ack_type AND h.lower = f.lower AND h.upper = f.upper
    UNION ALL
    SELECT h.*, false FROM {held_by_log} h
    LEFT ANTI JOIN found f ON h.broker = f.broker AND h.log_id = f.log_id
        AND h.subscription = f.subscription AND h.tc_id = f.tc_id AND h.sequence = f.sequence
        AND h.ack_type = f.ack_type AND h.lower = f.lower AND h.upper = f.upper
)
SELECT broker, log_id, tc_id, sequence, min(lower) AS at_offset,
    named_struct(
        'subscription', subscription, 'ack_type', ack_type,
        'found', slice(sort_array(collect_list(
            IF(stands, named_struct('first', lower, 'last', upper - 1), NULL)
        )), 1, 20),
        'recomputed', slice(sort_array(collect_list(
            IF(stands, NULL, named_struct('first', lower, 'last', upper - 1))
        )), 1, 20)
    ) AS evidence
FROM differs GROUP BY broker, log_id, subscription, tc_id, sequence, ack_type
