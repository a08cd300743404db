-- One row for each transaction in each log, from the log's entries alone: where its data begins and
-- ends, its markers; in a sidecar log also which of its messages these are, by their own count. A key
-- is spread by transaction, so a hot partition is no hot task, and a transaction that holds half of
-- the log is collapsed before the shuffle.
SELECT
    broker, log_id, tc_id, sequence,
    min(first_offset) FILTER (WHERE kind = 'D') AS first_offset,
    max(last_offset) FILTER (WHERE kind = 'D') AS last_offset,
    coalesce(sum(last_offset - first_offset + 1) FILTER (WHERE kind = 'D'), 0) AS messages,
    min(first_offset) FILTER (WHERE kind <> 'D') AS end_offset,
    max(first_offset) FILTER (WHERE kind <> 'D') AS last_marker,
    min_by(kind, first_offset) FILTER (WHERE kind <> 'D') AS outcome,
    min(kind) FILTER (WHERE kind <> 'D') AS lowest_outcome,
    max(kind) FILTER (WHERE kind <> 'D') AS highest_outcome,
    count_if(kind <> 'D') AS markers,
    max(last_offset) FILTER (WHERE kind = 'C') AS commit_last,
    min(txn_messages - (last_offset - first_offset + 1)) FILTER (WHERE kind = 'D') AS first_message,
    max(txn_messages) FILTER (WHERE kind = 'D') AS last_message,
    max(txn_messages) FILTER (WHERE kind = 'C') AS commit_messages
FROM {entries}
WHERE tc_id IS NOT NULL
GROUP BY broker, log_id, tc_id, sequence
