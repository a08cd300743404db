-- Store a head that the caller has locked and moved on; the lowest ongoing offset is looked up.
CREATE OR REPLACE FUNCTION broker.write_head(head broker.partition_live)
RETURNS void LANGUAGE sql AS $$
    UPDATE broker.partition_live l SET
        next_offset = head.next_offset,
        ledger_id = head.ledger_id,
        segment_first_offset = head.segment_first_offset,
        segment_entries = head.segment_entries,
        segment_bytes = head.segment_bytes,
        first_ongoing_offset = (
            SELECT o.first_offset FROM broker.ongoing_txn o
            WHERE o.ordered_in = head.partition_id ORDER BY o.first_offset LIMIT 1
        ),
        ongoing_txns = head.ongoing_txns,
        aborted_txns = head.aborted_txns,
        changes = head.changes,
        ends = head.ends,
        aborts = head.aborts,
        markers = head.markers
    WHERE l.partition_id = head.partition_id
$$;
