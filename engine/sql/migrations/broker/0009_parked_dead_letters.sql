-- A dead letter that its topic refuses for good, one larger than may be by now, is parked with the
-- cause, so that those behind it go on, and tried again from time to time.
-- waiting_of is the subscription of one that is not parked: an index on it serves the moves alone,
-- and parked ones cost them nothing.
ALTER TABLE broker.dead_letter
    ADD COLUMN cause text,
    ADD COLUMN retry_at timestamptz,
    ADD COLUMN waiting_of bigint
        GENERATED ALWAYS AS (CASE WHEN cause IS NULL THEN subscription_id END) STORED,
    ADD CONSTRAINT retried_iff_parked CHECK ((cause IS NULL) = (retry_at IS NULL));
CREATE INDEX dead_letter_waiting_idx ON broker.dead_letter (waiting_of, partition_id, sequence_id)
    WHERE waiting_of IS NOT NULL;
CREATE INDEX dead_letter_parked_idx ON broker.dead_letter (retry_at) WHERE retry_at IS NOT NULL;
