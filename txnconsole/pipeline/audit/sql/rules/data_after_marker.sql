-- Messages of a transaction behind its marker.
SELECT broker, log_id, tc_id, sequence, last_offset AS at_offset,
    named_struct('marker', end_offset, 'outcome', outcome, 'last_message', last_offset) AS evidence
FROM {spans} WHERE last_offset > end_offset
