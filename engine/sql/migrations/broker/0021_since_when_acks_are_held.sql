-- Since when a transaction holds acknowledgements in a partition: the console tells it. The log has it too,
-- but cannot be asked for one transaction's first step without reading those of all. Of what is held already it
-- is not known.
ALTER TABLE broker.pending_ack ADD COLUMN since timestamptz;
ALTER TABLE broker.pending_ack ALTER COLUMN since SET DEFAULT clock_timestamp();
