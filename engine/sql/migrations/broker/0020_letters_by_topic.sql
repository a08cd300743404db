-- Dead letters go under a producer name that stands for their subscription. Its id here is not enough:
-- a topic that is made anew may have the partition on another broker, whose ids are counted by
-- themselves. So the name has the topic's id as well. Subscriptions of before keep the name under which
-- their letters have been sent: a move that is interrupted by the update is repeated under it, and so
-- recognised.
ALTER TABLE broker.subscription ADD COLUMN letters_by_topic boolean NOT NULL DEFAULT false;
ALTER TABLE broker.subscription ALTER COLUMN letters_by_topic SET DEFAULT true;
