-- How many offsets of a sealed segment no reader ever gets: markers and aborted messages. Counted once
-- all of it lies at or below the stable position, where nothing changes any more; null until then.
ALTER TABLE broker.segment ADD COLUMN unseen bigint;
-- the segments of a stretch of the log, with what is known of them.
CREATE INDEX segment_counted_idx ON broker.segment (partition_id, last_offset)
    WHERE unseen IS NOT NULL;
-- what is still to be counted.
CREATE INDEX segment_uncounted_idx ON broker.segment (partition_id, last_offset)
    WHERE unseen IS NULL AND sealed_at IS NOT NULL;
