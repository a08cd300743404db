-- A subscription without a cursor in a partition: it is not known what it has acknowledged there.
SELECT s.broker, s.log_id, CAST(NULL AS int) AS tc_id, CAST(NULL AS bigint) AS sequence,
    CAST(NULL AS bigint) AS at_offset, named_struct('subscription', s.subscription) AS evidence
FROM {subscriptions} s
LEFT ANTI JOIN {cursors} c ON c.broker = s.broker AND c.log_id = s.log_id
    AND c.subscription = s.subscription
