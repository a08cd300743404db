-- The coordinator was told another number of acknowledgements than the subscription's fence holds.
SELECT e.broker, e.log_id, e.tc_id, e.sequence, CAST(NULL AS bigint) AS at_offset,
    named_struct(
        'subscription', e.subscription, 'coordinator', a.acked_messages, 'fence', e.messages
    ) AS evidence
FROM {ended_acks} e
JOIN {acknowledgers} a ON a.tc_id = e.tc_id AND a.sequence = e.sequence AND a.topic = e.topic
    AND a.subscription = e.subscription AND a.broker = e.broker
WHERE a.acked_messages <> e.messages
