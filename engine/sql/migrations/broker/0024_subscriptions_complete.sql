-- At a subscription's home: whether all brokers of its topic have made it
-- (engine/subscription/subscriptions.py).
ALTER TABLE broker.subscription ADD COLUMN complete boolean NOT NULL DEFAULT false;
