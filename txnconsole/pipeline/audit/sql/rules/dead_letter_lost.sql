-- Dead letters that are not on their way any more and did not arrive, by the numbers that they were
-- given: later ones did, or earlier ones. What the dead-letter topic has dropped is not asked about.
WITH known AS (
    SELECT broker, log_id, subscription, producer, dead_letter_topic, number, 1 AS sent
    FROM {letters_sent} WHERE number < issued
    UNION
    SELECT broker, log_id, subscription, producer, dead_letter_topic, explode(waiting), 0
    FROM {letters_before}
    UNION
    SELECT broker, log_id, subscription, producer, dead_letter_topic, issued, 0
    FROM {letters_before}
),
walked AS (
    SELECT *, lag(number) OVER (PARTITION BY broker, producer ORDER BY number) AS before,
        max(sent) OVER (
            PARTITION BY broker, producer ORDER BY number
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS others
    FROM known
)
SELECT broker, log_id, CAST(NULL AS int) AS tc_id, CAST(NULL AS bigint) AS sequence,
    CAST(NULL AS bigint) AS at_offset,
    named_struct(
        'subscription', subscription, 'dead_letter_topic', dead_letter_topic,
        'letters', sum(number - before - 1), 'first', min(before + 1), 'last', max(number - 1)
    ) AS evidence
FROM walked
WHERE others = 1 AND number > before + 1
AND dead_letter_topic IN (SELECT topic FROM {logs})
GROUP BY broker, log_id, subscription, dead_letter_topic, producer
