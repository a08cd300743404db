-- When the newest batch that retention dropped of a producer was published: after a while without
-- any, the producer is forgotten (engine/settings.py, producers_kept_ms).
ALTER TABLE broker.producer
    ADD COLUMN published_at timestamptz NOT NULL DEFAULT clock_timestamp();
CREATE INDEX producer_published_at_idx ON broker.producer (published_at);
