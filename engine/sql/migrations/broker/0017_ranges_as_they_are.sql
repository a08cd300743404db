-- Scattered acknowledgements make long values that are written anew with each further one. PostgreSQL would
-- compress them each time, which took it nine tenths of that (docs/decisions/0047). A deployment's values
-- change over as they are next written.
ALTER TABLE broker.cursor ALTER COLUMN acked SET STORAGE EXTERNAL;
ALTER TABLE broker.dispatch ALTER COLUMN state SET STORAGE EXTERNAL;
ALTER TABLE broker.pending_ack ALTER COLUMN ranges SET STORAGE EXTERNAL;
ALTER TABLE broker.tentative_ack ALTER COLUMN ranges SET STORAGE EXTERNAL;
ALTER TABLE broker.pending_ack_log ALTER COLUMN ranges SET STORAGE EXTERNAL;
