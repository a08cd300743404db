-- Whether all brokers of a topic have made its partitions and know its retention, as both stand here
-- (engine/log/topics.py).
ALTER TABLE coordinator.topic ADD COLUMN made boolean NOT NULL DEFAULT false;
