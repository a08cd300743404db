-- append --
-- See functions/broker/append.sql.
SELECT result, ledger_id, first_offset, last_offset, last_sequence_id, needs_snapshot
FROM broker.append(
    %(partition_id)s, %(messages)s::bigint[], %(bodies)s::bytea[], %(producers)s::text[],
    %(sequence_ids)s::bigint[], %(tc_ids)s::integer[], %(sequences)s::bigint[]
)

-- append_plain --
-- As functions/broker/append.sql does for one batch outside transactions whose producer is not asked for,
-- where nothing is to be judged: two thirds of its cost. No row: the partition takes nothing now, or
-- its segment is full, and that function has to see to it. The head's lock is waited for with the
-- UPDATE, which then takes the head as it stands.
WITH head AS (
    UPDATE broker.partition_live l SET
        next_offset = l.next_offset + %(messages)s::bigint,
        segment_entries = l.segment_entries + 1,
        segment_bytes = l.segment_bytes + length(%(body)s::bytea)
    WHERE l.partition_id = %(partition_id)s AND l.online AND (
        l.segment_entries = 0 OR (
            l.next_offset - l.segment_first_offset + %(messages)s::bigint <= l.segment_max_messages
            AND l.segment_bytes + length(%(body)s::bytea) <= l.segment_max_bytes
        )
    )
    RETURNING l.partition_id, l.next_offset, l.ledger_id
)
INSERT INTO broker.entry
    (partition_id, last_offset, first_offset, ledger_id, kind, publish_time, body)
SELECT partition_id, next_offset - 1, next_offset - %(messages)s::bigint, ledger_id, 'D',
    clock_timestamp(), %(body)s::bytea
FROM head
RETURNING ledger_id, first_offset, last_offset

-- append_plain_alike --
-- As append_plain for batches that callers have ready at once, which share one change of the head: a third of
-- what that function does for each. Their offsets are counted from the first one's. No row also where
-- they do not all fit into the segment.
WITH head AS (
    UPDATE broker.partition_live l SET
        next_offset = l.next_offset + %(messages)s::bigint,
        segment_entries = l.segment_entries + cardinality(%(bodies)s::bytea[]),
        segment_bytes = l.segment_bytes + %(bytes)s::bigint
    WHERE l.partition_id = %(partition_id)s AND l.online
    AND l.next_offset - l.segment_first_offset + %(messages)s::bigint <= l.segment_max_messages
    AND l.segment_bytes + %(bytes)s::bigint <= l.segment_max_bytes
    RETURNING l.next_offset - %(messages)s::bigint AS first_offset, l.ledger_id
), stored AS (
    INSERT INTO broker.entry
        (partition_id, last_offset, first_offset, ledger_id, kind, publish_time, body)
    SELECT %(partition_id)s, head.first_offset + batch.last, head.first_offset + batch.first,
        head.ledger_id, 'D', clock_timestamp(), batch.body
    FROM head CROSS JOIN unnest(
        %(firsts)s::bigint[], %(lasts)s::bigint[], %(bodies)s::bytea[]
    ) batch (first, last, body)
)
SELECT ledger_id, first_offset FROM head

-- append_ongoing --
-- As append_plain, in a transaction that is ongoing in the partition: what is ongoing has not ended, since
-- an end takes it out under the head's lock. The head is locked first, then all is read as it
-- stands; without the transaction nothing is taken.
WITH head AS MATERIALIZED (
    SELECT l.next_offset FROM broker.partition_live l
    WHERE l.partition_id = %(partition_id)s AND l.online AND (
        l.segment_entries = 0 OR (
            l.next_offset - l.segment_first_offset + %(messages)s::bigint <= l.segment_max_messages
            AND l.segment_bytes + length(%(body)s::bytea) <= l.segment_max_bytes
        )
    )
    FOR UPDATE
), noted AS (
    UPDATE broker.ongoing_txn o SET
        last_offset = head.next_offset + %(messages)s::bigint - 1,
        messages = o.messages + %(messages)s::bigint
    FROM head
    WHERE o.partition_id = %(partition_id)s AND o.tc_id = %(tc_id)s::integer
    AND o.sequence = %(sequence)s::bigint
    RETURNING o.last_offset
), taken AS (
    UPDATE broker.partition_live l SET
        next_offset = l.next_offset + %(messages)s::bigint,
        segment_entries = l.segment_entries + 1,
        segment_bytes = l.segment_bytes + length(%(body)s::bytea)
    FROM noted WHERE l.partition_id = %(partition_id)s
    RETURNING l.next_offset, l.ledger_id
)
INSERT INTO broker.entry (
    partition_id, last_offset, first_offset, ledger_id, kind, tc_id, sequence, publish_time, body
)
SELECT %(partition_id)s, next_offset - 1, next_offset - %(messages)s::bigint, ledger_id, 'D',
    %(tc_id)s::integer, %(sequence)s::bigint, clock_timestamp(), %(body)s::bytea
FROM taken
RETURNING ledger_id, first_offset, last_offset

-- append_ongoing_alike --
-- As append_plain_alike, in one transaction that is ongoing in the partition, by the order of append_ongoing.
WITH head AS MATERIALIZED (
    SELECT l.next_offset FROM broker.partition_live l
    WHERE l.partition_id = %(partition_id)s AND l.online
    AND l.next_offset - l.segment_first_offset + %(messages)s::bigint <= l.segment_max_messages
    AND l.segment_bytes + %(bytes)s::bigint <= l.segment_max_bytes
    FOR UPDATE
), noted AS (
    UPDATE broker.ongoing_txn o SET
        last_offset = head.next_offset + %(messages)s::bigint - 1,
        messages = o.messages + %(messages)s::bigint
    FROM head
    WHERE o.partition_id = %(partition_id)s AND o.tc_id = %(tc_id)s::integer
    AND o.sequence = %(sequence)s::bigint
    RETURNING o.last_offset
), taken AS (
    UPDATE broker.partition_live l SET
        next_offset = l.next_offset + %(messages)s::bigint,
        segment_entries = l.segment_entries + cardinality(%(bodies)s::bytea[]),
        segment_bytes = l.segment_bytes + %(bytes)s::bigint
    FROM noted WHERE l.partition_id = %(partition_id)s
    RETURNING l.next_offset - %(messages)s::bigint AS first_offset, l.ledger_id
), stored AS (
    INSERT INTO broker.entry (
        partition_id, last_offset, first_offset, ledger_id, kind, tc_id, sequence, publish_time,
        body
    )
    SELECT %(partition_id)s, taken.first_offset + batch.last, taken.first_offset + batch.first,
        taken.ledger_id, 'D', %(tc_id)s::integer, %(sequence)s::bigint, clock_timestamp(), batch.body
    FROM taken CROSS JOIN unnest(
        %(firsts)s::bigint[], %(lasts)s::bigint[], %(bodies)s::bytea[]
    ) batch (first, last, body)
)
SELECT ledger_id, first_offset FROM taken
