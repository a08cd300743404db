-- A broker's database: partitions, their logs and transaction buffers, subscriptions
-- (design/semantics.md §4 to §7). Plans are kept for as long as a connection lives, so one that is made
-- while a table is all but empty must suit it when it is large (tests/engine/sql/test_plans.py).
--
-- Logged tables are records: durable before a caller hears of success. UNLOGGED tables are derived
-- state, which PostgreSQL empties after a crash: a partition without its partition_live row serves
-- nothing until it is rebuilt from snapshot and log (semantics §1, §5).

CREATE SCHEMA IF NOT EXISTS broker;

CREATE TABLE broker.partition (
    partition_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic_id bigint NOT NULL,
    topic text NOT NULL,
    number integer NOT NULL,
    buffer text NOT NULL CHECK (buffer IN ('marker', 'sidecar')),
    online boolean NOT NULL DEFAULT true,
    segment_max_messages bigint NOT NULL,
    segment_max_bytes bigint NOT NULL,
    retention_ms bigint,
    retention_bytes bigint,
    deduplication boolean NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The log's start moves first; entries and index rows below it are gone for everybody from then
    -- on, and are deleted afterwards in bounded steps. aborted_dropped counts the aborted
    -- transactions whose index rows went with them: the head counts all that ever aborted.
    log_start_offset bigint NOT NULL DEFAULT 0,
    aborted_dropped bigint NOT NULL DEFAULT 0,
    offline_reason text,
    UNIQUE (topic_id, number)
);
-- Partitions of deleted topics whose entries and index rows are still to be deleted.
CREATE TABLE broker.dropped_partition (
    partition_id bigint PRIMARY KEY,
    dropped_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- A segment ("ledger") is dropped as one. Totals stand here once it is sealed; those of the open
-- segment are in partition_live.
CREATE SEQUENCE broker.ledger_id_seq;
CREATE TABLE broker.segment (
    partition_id bigint NOT NULL REFERENCES broker.partition ON DELETE CASCADE,
    ledger_id bigint NOT NULL,
    first_offset bigint NOT NULL,
    last_offset bigint,
    entries bigint,
    bytes bigint,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    sealed_at timestamptz,
    PRIMARY KEY (partition_id, ledger_id),
    CONSTRAINT totals_iff_sealed CHECK ((sealed_at IS NULL) = (last_offset IS NULL))
);
-- the open segment of a partition; at most one.
CREATE UNIQUE INDEX segment_open_idx ON broker.segment (partition_id) WHERE sealed_at IS NULL;

-- The log: one row per produced batch or transaction marker, at contiguous offsets. Keyed by the
-- last offset, so that "the entries from offset o on" is one index range whatever the batch sizes.
CREATE TABLE broker.entry (
    partition_id bigint NOT NULL,
    last_offset bigint NOT NULL,
    first_offset bigint NOT NULL,
    ledger_id bigint NOT NULL,
    kind "char" NOT NULL CHECK (kind IN ('D', 'C', 'A')),  -- DATA, TXN_COMMIT, TXN_ABORT
    tc_id integer,
    sequence bigint,
    sequence_id bigint,
    publish_time timestamptz NOT NULL,
    producer_name text,
    body bytea,
    PRIMARY KEY (partition_id, last_offset),
    CONSTRAINT offsets_in_order CHECK (first_offset <= last_offset),
    CONSTRAINT body_iff_data CHECK ((kind = 'D') = (body IS NOT NULL))
);
ALTER TABLE broker.entry ALTER COLUMN body SET STORAGE EXTERNAL;  -- it is compressed already
-- exactly-once appends outside a transaction; a producer's last sequence id.
CREATE INDEX entry_producer_idx
    ON broker.entry (partition_id, producer_name, sequence_id)
    WHERE tc_id IS NULL AND producer_name IS NOT NULL;
-- exactly-once appends inside a transaction; a transaction's messages.
CREATE INDEX entry_txn_idx
    ON broker.entry (partition_id, tc_id, sequence, producer_name, sequence_id)
    WHERE tc_id IS NOT NULL;

-- The newest batch of a producer, outside transactions, among what retention has dropped: one row
-- per producer, so that appends stay exactly-once while the partition lives.
CREATE TABLE broker.producer (
    partition_id bigint NOT NULL REFERENCES broker.partition ON DELETE CASCADE,
    producer_name text NOT NULL,
    sequence_id bigint NOT NULL,
    ledger_id bigint NOT NULL,
    first_offset bigint NOT NULL,
    last_offset bigint NOT NULL,
    PRIMARY KEY (partition_id, producer_name)
);

-- Kafka's aborted-transaction index, which keeps committed transactions as well (semantics §4.2).
-- last_offset is the marker's; last_stable_offset is exclusive.
CREATE TABLE broker.txn_index (
    partition_id bigint NOT NULL,
    last_offset bigint NOT NULL,
    first_offset bigint NOT NULL,
    last_stable_offset bigint NOT NULL,
    ledger_id bigint NOT NULL,
    tc_id integer NOT NULL,
    sequence bigint NOT NULL,
    aborted boolean NOT NULL,
    version smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (partition_id, last_offset),
    CONSTRAINT offsets_in_order CHECK (first_offset < last_offset),
    CONSTRAINT stable_within CHECK (last_stable_offset <= last_offset + 1)
);
-- the aborted transactions that overlap a fetched range, at the cost of the answer. With the
-- partition as a range too, no other index can serve aborted_overlapping.
CREATE INDEX txn_index_aborted_idx ON broker.txn_index USING gist (
    int8range(partition_id, partition_id, '[]'), int8range(first_offset, last_offset, '[]')
) WHERE aborted;
-- the outcomes of one transaction.
CREATE INDEX txn_index_txn_idx ON broker.txn_index (partition_id, tc_id, sequence);

-- The fence: transactions that ended in a partition, kept until the low water mark covers them.
CREATE TABLE broker.ended_txn (
    partition_id bigint NOT NULL REFERENCES broker.partition ON DELETE CASCADE,
    tc_id integer NOT NULL,
    sequence bigint NOT NULL,
    aborted boolean NOT NULL,
    marker_offset bigint,
    first_offset bigint,
    last_offset bigint,
    messages bigint NOT NULL,
    PRIMARY KEY (partition_id, tc_id, sequence)
);
CREATE TABLE broker.low_water_mark (
    partition_id bigint NOT NULL REFERENCES broker.partition ON DELETE CASCADE,
    tc_id integer NOT NULL,
    low_water_mark bigint NOT NULL,
    PRIMARY KEY (partition_id, tc_id)
) WITH (fillfactor = 50);

-- Snapshots of buffers; the content is an entry of the namespace's system topic.
CREATE TABLE broker.snapshot (
    partition_id bigint NOT NULL REFERENCES broker.partition ON DELETE CASCADE,
    position bigint NOT NULL,
    system_partition_id bigint NOT NULL,
    system_offset bigint NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (partition_id, position)
);

-- Derived: the head of a partition. Its lock serialises appends and ends, so that offsets become
-- visible in order and without gaps; a sequence could not promise that.
CREATE UNLOGGED TABLE broker.partition_live (
    partition_id bigint PRIMARY KEY,
    next_offset bigint NOT NULL,
    log_start_offset bigint NOT NULL,
    ledger_id bigint NOT NULL,
    segment_first_offset bigint NOT NULL,
    segment_entries bigint NOT NULL,
    segment_bytes bigint NOT NULL,
    first_ongoing_offset bigint,
    ongoing_txns bigint NOT NULL,
    aborted_txns bigint NOT NULL,
    changes bigint NOT NULL,
    snapshot_position bigint,
    snapshot_at timestamptz,
    sampled_stable bigint,
    sampled_last bigint
) WITH (fillfactor = 20);
-- Derived: transactions with data and without a marker.
CREATE UNLOGGED TABLE broker.ongoing_txn (
    partition_id bigint NOT NULL,
    tc_id integer NOT NULL,
    sequence bigint NOT NULL,
    first_offset bigint NOT NULL,
    last_offset bigint NOT NULL,
    messages bigint NOT NULL,
    first_append_at timestamptz NOT NULL,
    ordered_in bigint NOT NULL GENERATED ALWAYS AS (partition_id) STORED,
    PRIMARY KEY (partition_id, tc_id, sequence)
) WITH (fillfactor = 70);
-- The table is often empty when it is analyzed, and then one index looks as good as the other. The
-- partition has a second name in this one, so that a question can use the index that is meant and no
-- other: append by the key, the stable position by the order.
CREATE INDEX ongoing_txn_first_offset_idx ON broker.ongoing_txn (ordered_in, first_offset);

-- Where the stable and the last position stood, for plots; sampled by the workers.
CREATE TABLE broker.position_sample (
    partition_id bigint NOT NULL REFERENCES broker.partition ON DELETE CASCADE,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    stable_position bigint NOT NULL,
    last_offset bigint NOT NULL,
    PRIMARY KEY (partition_id, at)
);

CREATE TABLE broker.subscription (
    subscription_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic_id bigint NOT NULL,
    topic text NOT NULL,
    name text NOT NULL,
    type text NOT NULL CHECK (type IN ('EXCLUSIVE', 'FAILOVER', 'SHARED', 'KEY_SHARED')),
    initial_position text NOT NULL CHECK (initial_position IN ('earliest', 'latest')),
    ack_timeout_ms bigint NOT NULL CHECK (ack_timeout_ms > 0),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (topic_id, name)
);

-- A subscription's record in one partition: everything up to mark_delete, and acked above it, is
-- deleted for it. Ranges are half open.
CREATE TABLE broker.cursor (
    subscription_id bigint NOT NULL REFERENCES broker.subscription ON DELETE CASCADE,
    partition_id bigint NOT NULL REFERENCES broker.partition ON DELETE CASCADE,
    mark_delete bigint NOT NULL,
    acked int8multirange NOT NULL DEFAULT '{}',
    PRIMARY KEY (subscription_id, partition_id)
) WITH (fillfactor = 50);

-- Acknowledgements that wait for their transaction's outcome, and the log of every step.
CREATE TABLE broker.pending_ack (
    subscription_id bigint NOT NULL REFERENCES broker.subscription ON DELETE CASCADE,
    partition_id bigint NOT NULL REFERENCES broker.partition ON DELETE CASCADE,
    tc_id integer NOT NULL,
    sequence bigint NOT NULL,
    ack_type text NOT NULL CHECK (ack_type IN ('INDIVIDUAL', 'CUMULATIVE')),
    ranges int8multirange NOT NULL,
    PRIMARY KEY (subscription_id, partition_id, tc_id, sequence, ack_type)
) WITH (fillfactor = 70);
CREATE INDEX pending_ack_txn_idx ON broker.pending_ack (tc_id, sequence);
CREATE TABLE broker.pending_ack_log (
    log_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription_id bigint NOT NULL REFERENCES broker.subscription ON DELETE CASCADE,
    partition_id bigint NOT NULL,
    tc_id integer NOT NULL,
    sequence bigint NOT NULL,
    op text NOT NULL CHECK (op IN ('ACK', 'COMMIT', 'ABORT')),
    ack_type text,
    ranges int8multirange NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX pending_ack_log_subscription_idx
    ON broker.pending_ack_log (subscription_id, log_id);
-- the pending-ack log behind the mark-delete position.
CREATE INDEX pending_ack_log_trim_idx
    ON broker.pending_ack_log (subscription_id, partition_id, upper(ranges));
-- The fence for acknowledgements, as ended_txn is for appends.
CREATE TABLE broker.ended_ack_txn (
    subscription_id bigint NOT NULL REFERENCES broker.subscription ON DELETE CASCADE,
    tc_id integer NOT NULL,
    sequence bigint NOT NULL,
    aborted boolean NOT NULL,
    messages bigint NOT NULL,
    PRIMARY KEY (subscription_id, tc_id, sequence)
);
CREATE TABLE broker.ack_low_water_mark (
    subscription_id bigint NOT NULL REFERENCES broker.subscription ON DELETE CASCADE,
    tc_id integer NOT NULL,
    low_water_mark bigint NOT NULL,
    PRIMARY KEY (subscription_id, tc_id)
) WITH (fillfactor = 50);

-- Derived: what is on its way to consumers. Lost in a crash, and then delivered again.
CREATE UNLOGGED TABLE broker.dispatch (
    subscription_id bigint NOT NULL,
    partition_id bigint NOT NULL,
    read_offset bigint NOT NULL,
    redeliver int8multirange NOT NULL DEFAULT '{}',
    PRIMARY KEY (subscription_id, partition_id)
) WITH (fillfactor = 30);
CREATE UNLOGGED TABLE broker.delivery (
    delivery_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription_id bigint NOT NULL,
    partition_id bigint NOT NULL,
    consumer text NOT NULL,
    ranges int8multirange NOT NULL,
    deadline timestamptz NOT NULL
);
CREATE INDEX delivery_deadline_idx
    ON broker.delivery (subscription_id, partition_id, deadline);
CREATE UNLOGGED TABLE broker.redelivered (
    subscription_id bigint NOT NULL,
    partition_id bigint NOT NULL,
    times integer NOT NULL,
    ranges int8multirange NOT NULL,
    PRIMARY KEY (subscription_id, partition_id, times)
);
