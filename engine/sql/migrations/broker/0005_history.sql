-- trim_samples: what is past its time, whatever the number of samples that are kept.
CREATE INDEX position_sample_at_idx ON broker.position_sample (at);

-- How long rebuilding a partition's derived state took, for estimates.
CREATE TABLE broker.recovery (
    partition_id bigint NOT NULL REFERENCES broker.partition ON DELETE CASCADE,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    snapshot_position bigint NOT NULL,
    entries bigint NOT NULL,
    duration_ms double precision NOT NULL,
    PRIMARY KEY (partition_id, at)
);
CREATE INDEX recovery_at_idx ON broker.recovery (at);
