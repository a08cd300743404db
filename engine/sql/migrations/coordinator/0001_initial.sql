-- The coordinators' database: transactions and the catalog of topics (design/semantics.md §1, §2).

CREATE SCHEMA IF NOT EXISTS coordinator;

CREATE TYPE coordinator.txn_status AS ENUM (
    'OPEN',        -- -> COMMITTING | ABORTING, by end_txn, end_group or expire_txns
    'COMMITTING',  -- -> COMMITTED, by finalization, when every participant has committed
    'COMMITTED',   -- final
    'ABORTING',    -- -> ABORTED, by finalization, when every participant has aborted
    'ABORTED'      -- final
);

-- One row per coordinator. Its lock orders the ids: a lower id can never appear after a higher one.
CREATE TABLE coordinator.coordinator (
    tc_id integer PRIMARY KEY CHECK (tc_id BETWEEN 0 AND 65535),
    next_sequence bigint NOT NULL DEFAULT 0 CHECK (next_sequence >= 0),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    recover_started_at timestamptz,
    recover_ended_at timestamptz
) WITH (fillfactor = 50);

-- The header of a transaction. No foreign key to coordinator: the row is made under that row's lock.
CREATE TABLE coordinator.transaction (
    tc_id integer NOT NULL,
    sequence bigint NOT NULL,
    status coordinator.txn_status NOT NULL DEFAULT 'OPEN',
    owner text NOT NULL,
    client text NOT NULL,
    properties jsonb NOT NULL,
    opened_at timestamptz NOT NULL,
    timeout_ms bigint NOT NULL CHECK (timeout_ms > 0),
    deadline timestamptz NOT NULL,
    decided_at timestamptz,
    ended_at timestamptz,
    end_reason text CHECK (
        end_reason IN ('client', 'timeout', 'operator', 'low_water_mark', 'conflict')
    ),
    end_detail text,
    next_attempt_at timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tc_id, sequence),
    CONSTRAINT decided_at_iff_decided CHECK ((status = 'OPEN') = (decided_at IS NULL)),
    CONSTRAINT ended_at_iff_ended
        CHECK ((status IN ('COMMITTED', 'ABORTED')) = (ended_at IS NOT NULL)),
    CONSTRAINT next_attempt_at_iff_finalizing
        CHECK ((status IN ('COMMITTING', 'ABORTING')) = (next_attempt_at IS NOT NULL))
) WITH (fillfactor = 80);

-- expire_txns; the order "overdue".
CREATE INDEX transaction_deadline_idx
    ON coordinator.transaction (deadline, tc_id, sequence) WHERE status = 'OPEN';
-- low water marks; counts of live transactions.
CREATE INDEX transaction_live_idx
    ON coordinator.transaction (tc_id, sequence)
    INCLUDE (status) WHERE status IN ('OPEN', 'COMMITTING', 'ABORTING');
-- due_coordinators, due_txns.
CREATE INDEX transaction_due_idx
    ON coordinator.transaction (tc_id, next_attempt_at) WHERE status IN ('COMMITTING', 'ABORTING');
-- lists, newest and oldest first.
CREATE INDEX transaction_opened_at_idx
    ON coordinator.transaction (opened_at, tc_id, sequence);
-- lists of one status, but the common one.
CREATE INDEX transaction_status_idx
    ON coordinator.transaction (status, opened_at, tc_id, sequence) WHERE status <> 'COMMITTED';
-- lists of one owner or client.
CREATE INDEX transaction_owner_idx
    ON coordinator.transaction (owner, opened_at, tc_id, sequence);
CREATE INDEX transaction_client_idx
    ON coordinator.transaction (client, opened_at, tc_id, sequence) WHERE client <> '';

-- Participants. A subscription takes part once on every broker that holds partitions of its topic.
CREATE TABLE coordinator.txn_partition (
    tc_id integer NOT NULL,
    sequence bigint NOT NULL,
    topic_id bigint NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    broker text NOT NULL,
    state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'committed', 'aborted')),
    first_offset bigint,
    last_offset bigint,
    messages bigint,
    attempts integer NOT NULL DEFAULT 0,
    last_error text,
    PRIMARY KEY (tc_id, sequence, topic_id, partition)
);
-- topic_in_use.
CREATE INDEX txn_partition_pending_idx
    ON coordinator.txn_partition (topic_id) WHERE state = 'pending';

CREATE TABLE coordinator.txn_subscription (
    tc_id integer NOT NULL,
    sequence bigint NOT NULL,
    topic_id bigint NOT NULL,
    topic text NOT NULL,
    subscription text NOT NULL,
    broker text NOT NULL,
    state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'committed', 'aborted')),
    acked_messages bigint,
    attempts integer NOT NULL DEFAULT 0,
    last_error text,
    PRIMARY KEY (tc_id, sequence, topic_id, subscription, broker)
);
CREATE INDEX txn_subscription_pending_idx
    ON coordinator.txn_subscription (topic_id, subscription) WHERE state = 'pending';

-- The transaction log of PIP-31: append-only, one record per change of a header.
CREATE TABLE coordinator.transaction_log (
    log_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tc_id integer NOT NULL,
    sequence bigint NOT NULL,
    metadata_op text NOT NULL
        CHECK (metadata_op IN ('NEW', 'ADD_PARTITION', 'ADD_SUBSCRIPTION', 'UPDATE')),
    expected_status coordinator.txn_status,
    new_status coordinator.txn_status,
    partitions text[] NOT NULL DEFAULT '{}',
    subscriptions text[] NOT NULL DEFAULT '{}',
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX transaction_log_txn_idx ON coordinator.transaction_log (tc_id, sequence, log_id);

-- Decisions over several transactions at once, by their key (design/pipeline.md).
CREATE TABLE coordinator.txn_group (
    group_key text PRIMARY KEY,
    guard text NOT NULL,
    owner text NOT NULL,
    committed text[] NOT NULL,
    aborted text[] NOT NULL,
    decided_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The catalog. brokers[n + 1] is the broker of partition n; a partition never moves.
CREATE TABLE coordinator.topic (
    topic_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    namespace text NOT NULL,
    topic text NOT NULL,
    buffer text NOT NULL CHECK (buffer IN ('marker', 'sidecar')),
    brokers text[] NOT NULL,
    retention_ms bigint,
    retention_bytes bigint,
    segment_max_messages bigint NOT NULL,
    segment_max_bytes bigint NOT NULL,
    deduplication boolean NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (tenant, namespace, topic)
);
