-- dropped_topics: a deletion that ran out of time comes after those that have not been tried since.
ALTER TABLE coordinator.dropped_topic ADD COLUMN tried_at timestamptz;
