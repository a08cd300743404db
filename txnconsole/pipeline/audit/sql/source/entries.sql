-- Headers of a log's entries in a range of offsets; no payload is read.
SELECT e.partition_id, e.first_offset, e.last_offset, e.kind::text AS kind, e.tc_id, e.sequence,
    e.producer_name, e.sequence_id, e.txn_messages
FROM broker.entry e
WHERE e.partition_id = {key} AND e.last_offset >= {lower} AND e.last_offset < {upper}
