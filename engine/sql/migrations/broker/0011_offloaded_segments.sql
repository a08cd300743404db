-- Segments whose batches stand in a file outside the database (docs/decisions/0024); a row is
-- there if and only if the entries' bodies have been replaced by references to it.
-- sha256 and file_bytes are the file's; data_entries and data_bytes what was taken from the log.
CREATE TABLE broker.offloaded_segment (
    partition_id bigint NOT NULL,
    ledger_id bigint NOT NULL,
    file uuid NOT NULL UNIQUE,
    data_entries bigint NOT NULL,
    data_bytes bigint NOT NULL,
    file_bytes bigint NOT NULL,
    sha256 text NOT NULL,
    offloaded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (partition_id, ledger_id),
    FOREIGN KEY (partition_id, ledger_id) REFERENCES broker.segment ON DELETE CASCADE
);
