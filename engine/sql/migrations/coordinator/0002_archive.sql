-- What is kept of a transaction for ever: that it was issued, whose it was, how it ended
-- (docs/decisions/0010-archive-is-bitmaps.md). Its header, participants and log are deleted.

-- One row per 16384 sequences of a coordinator and owner; bit (sequence & 16383) is the transaction's.
-- aborted is a subset of ended. A sequence is in the archive of one owner, or has a header.
CREATE TABLE coordinator.archive (
    tc_id integer NOT NULL,
    chunk bigint NOT NULL,
    owner text NOT NULL,
    ended bytea NOT NULL CHECK (length(ended) = 2048),
    aborted bytea NOT NULL CHECK (length(aborted) = 2048),
    PRIMARY KEY (tc_id, chunk, owner)
);

-- archive_txns.
CREATE INDEX transaction_ended_at_idx
    ON coordinator.transaction (ended_at, tc_id, sequence) WHERE ended_at IS NOT NULL;
