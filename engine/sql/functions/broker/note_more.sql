-- A transaction has so many messages more, up to noted.last_offset; the caller holds the partition's lock.
CREATE OR REPLACE FUNCTION broker.note_more(noted broker.ongoing_txn, more_messages bigint)
RETURNS void LANGUAGE sql AS $$
    UPDATE broker.ongoing_txn o SET
        last_offset = noted.last_offset, messages = o.messages + more_messages
    WHERE o.partition_id = noted.partition_id AND o.tc_id = noted.tc_id
    AND o.sequence = noted.sequence
$$;
