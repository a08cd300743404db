SELECT tc_id, sequence, status,
    coalesce(ended_at < timestamp '{before}', false) AS ended_before
FROM {raw}
