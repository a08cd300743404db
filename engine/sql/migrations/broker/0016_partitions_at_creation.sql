-- Which partitions are newer than a subscription, and so read from their start whatever its initial
-- position, is told by their numbers: the clocks of two brokers do not agree. One of before has its
-- cursors already in all that were there.
ALTER TABLE broker.subscription ADD COLUMN partitions_at_creation integer NOT NULL DEFAULT 0;
