-- What alerts have been measured at; their last values are kept, the newest at the end.
UPDATE alerts_alert a SET
    value = w.value,
    peak = greatest(a.peak, w.value),
    detail = w.detail,
    samples = (a.samples || w.value)[greatest(1, cardinality(a.samples) + 2 - %s):],
    measured_at = %s
FROM unnest(%s::bigint[], %s::float8[], %s::text[]) AS w (id, value, detail)
WHERE a.id = w.id AND a.state <> 'resolved'
