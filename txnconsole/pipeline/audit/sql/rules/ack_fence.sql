-- A subscription's fence has forgotten an end, by the pending-ack log, that no low water mark covers: what
-- the transaction acknowledges from now on would be taken. What a call over several brokers has given
-- back is no end.
SELECT s.broker, s.log_id, s.tc_id, s.sequence, min(s.lower) AS at_offset,
    named_struct('subscription', s.subscription, 'low_water_mark', m.low_water_mark) AS evidence
FROM {ack_steps} s
JOIN {logs} l ON l.broker = s.broker AND l.log_id = s.log_id
LEFT JOIN {ack_marks} m ON m.broker = s.broker AND m.topic = l.topic
    AND m.subscription = s.subscription AND m.tc_id = s.tc_id
LEFT ANTI JOIN {ended_acks} e ON e.broker = s.broker AND e.topic = l.topic
    AND e.subscription = s.subscription AND e.tc_id = s.tc_id AND e.sequence = s.sequence
WHERE s.op <> 'ACK' AND s.call_id = 0 AND s.sequence > coalesce(m.low_water_mark, -1)
GROUP BY s.broker, s.log_id, s.subscription, s.tc_id, s.sequence, m.low_water_mark
