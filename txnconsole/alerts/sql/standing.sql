-- How the alerts stand, in one row and one question, because every page asks. The rules are those
-- about silent workers whose threshold has passed, each with the silences that may be about it.
SELECT statement_timestamp() AS now, seen.at AS evaluated_at,
    (
        SELECT count(*) FROM alerts_alert
        WHERE state = 'firing'
        AND (silenced_until IS NULL OR silenced_until <= statement_timestamp())
    ) AS stored,
    (
        SELECT jsonb_agg(jsonb_build_object(
            'id', r.id, 'name', r.name, 'severity', r.severity, 'threshold', r.threshold,
            'silences', coalesce((
                SELECT jsonb_agg(jsonb_build_array(s.rule_id, s.objects_matching, s.until))
                FROM alerts_silence s
                WHERE s.ended_at IS NULL AND s.until > statement_timestamp()
                AND (s.rule_id IS NULL OR s.rule_id = r.id)
            ), '[]')
        ) ORDER BY r.name)
        FROM alerts_rule r
        WHERE r.kind = 'worker_silent' AND r.enabled
        AND seen.at < statement_timestamp() - greatest(r.threshold, %(alive_ms)s) * interval '1 ms'
    ) AS silent
FROM (SELECT min(at) AS at FROM alerts_evaluation) AS seen
