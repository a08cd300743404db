-- OPEN -> COMMITTING -> COMMITTED, OPEN -> ABORTING -> ABORTED and nothing else, whoever asks
-- (semantics §2). The engine's statements are compare-and-set already; this holds for all others too.
CREATE OR REPLACE FUNCTION coordinator.check_status_edge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'transaction %:% cannot go from % to %',
        old.tc_id, old.sequence, old.status, new.status USING ERRCODE = 'check_violation';
END $$;

-- The condition stands in the trigger, so that an edge that may be taken calls no function.
CREATE OR REPLACE TRIGGER transaction_status_edge
    BEFORE UPDATE OF status ON coordinator.transaction FOR EACH ROW
    WHEN (NOT (
        old.status = new.status
        OR old.status = 'OPEN' AND new.status IN ('COMMITTING', 'ABORTING')
        OR old.status = 'COMMITTING' AND new.status = 'COMMITTED'
        OR old.status = 'ABORTING' AND new.status = 'ABORTED'
    ))
    EXECUTE FUNCTION coordinator.check_status_edge();

-- An id stays what it is.
CREATE OR REPLACE TRIGGER transaction_id_stays
    BEFORE UPDATE OF tc_id, sequence ON coordinator.transaction FOR EACH ROW
    WHEN ((old.tc_id, old.sequence) IS DISTINCT FROM (new.tc_id, new.sequence))
    EXECUTE FUNCTION coordinator.check_status_edge();
