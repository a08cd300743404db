-- How many transactions have ended in a partition, how many of them by an abort, and how many of its
-- offsets are no messages: counted under the head's lock, which every end takes, and sampled with the
-- positions, so that rates are told by samples alone. After a crash counting goes on from the last
-- sample. What ended before this is not counted, and shows as messages in the first hour.
ALTER TABLE broker.partition_live
    ADD COLUMN ends bigint NOT NULL DEFAULT 0,
    ADD COLUMN aborts bigint NOT NULL DEFAULT 0,
    ADD COLUMN markers bigint NOT NULL DEFAULT 0,
    ADD COLUMN sampled_ends bigint;
ALTER TABLE broker.position_sample
    ADD COLUMN ends bigint NOT NULL DEFAULT 0,
    ADD COLUMN aborts bigint NOT NULL DEFAULT 0,
    ADD COLUMN markers bigint NOT NULL DEFAULT 0;
