-- What an append needs of the partition's record stands in its head as well, so that one locked row
-- tells all of it; what can change there, "online", changes in both under the head's lock.
ALTER TABLE broker.partition_live
    ADD COLUMN online boolean,
    ADD COLUMN segment_max_messages bigint,
    ADD COLUMN segment_max_bytes bigint,
    ADD COLUMN deduplication boolean;
UPDATE broker.partition_live l SET
    online = p.online,
    segment_max_messages = p.segment_max_messages,
    segment_max_bytes = p.segment_max_bytes,
    deduplication = p.deduplication
FROM broker.partition p WHERE p.partition_id = l.partition_id;
ALTER TABLE broker.partition_live
    ALTER COLUMN online SET NOT NULL,
    ALTER COLUMN segment_max_messages SET NOT NULL,
    ALTER COLUMN segment_max_bytes SET NOT NULL,
    ALTER COLUMN deduplication SET NOT NULL;

-- PostgreSQL parses each CHECK anew for every INSERT: these three were a third of an append's CPU
-- time (docs/decisions/0012). Only functions in engine/sql
-- write entries.
ALTER TABLE broker.entry
    DROP CONSTRAINT entry_kind_check,
    DROP CONSTRAINT offsets_in_order,
    DROP CONSTRAINT body_iff_data;
