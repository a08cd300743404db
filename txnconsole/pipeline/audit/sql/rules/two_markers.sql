-- A transaction with several markers of one kind in one log.
SELECT broker, log_id, tc_id, sequence, last_marker AS at_offset,
    named_struct(
        'markers', markers, 'first_marker', end_offset, 'last_marker', last_marker,
        'outcome', outcome
    ) AS evidence
FROM {spans} WHERE markers > 1 AND lowest_outcome = highest_outcome
