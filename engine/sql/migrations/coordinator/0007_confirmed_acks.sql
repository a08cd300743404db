-- Acknowledgements over several brokers that have been claimed on all of them, confirmed while their
-- transaction was OPEN (docs/decisions/0022). A commit makes only these final.
CREATE TABLE coordinator.confirmed_ack (
    tc_id integer NOT NULL,
    sequence bigint NOT NULL,
    call_id bigint NOT NULL,
    PRIMARY KEY (tc_id, sequence, call_id)
);
