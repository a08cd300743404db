-- Headers of a coordinator's transactions in a range of sequences.
SELECT t.tc_id, t.sequence, t.status::text AS status,
    coalesce(t.ended_at < '{before}'::timestamptz, false) AS ended_before
FROM coordinator.transaction t
WHERE t.tc_id = {key} AND t.sequence >= {lower} AND t.sequence < {upper}
