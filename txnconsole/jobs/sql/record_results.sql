-- The results of a step, by the numbers of its items.
UPDATE jobs_jobitem AS item SET
    state = given.state,
    result = given.result,
    detail = given.detail,
    ended_at = clock_timestamp()
FROM unnest(%s::integer[], %s::text[], %s::text[], %s::text[])
    AS given (number, state, result, detail)
WHERE item.job_id = %s AND item.number = given.number
