-- The audit log (txnconsole/audit/__init__.py tells what it promises).

CREATE TABLE audit_entry (
    sequence      bigint PRIMARY KEY,
    at            timestamptz NOT NULL,
    who           text NOT NULL,
    token_id      bigint,
    action        text NOT NULL,
    object        text NOT NULL,
    reason        text NOT NULL,
    before        text NOT NULL,
    after         text NOT NULL,
    result        text NOT NULL,
    request_id    text NOT NULL,
    previous_hash bytea NOT NULL,
    hash          bytea NOT NULL
);

CREATE INDEX audit_entry_object ON audit_entry (object, sequence DESC);

-- What an entry's hash covers: every field with its length before it, so that no two different
-- entries read the same, and the hash of the entry before. chain.py computes the same.
CREATE FUNCTION audit_entry_hash(entry audit_entry) RETURNS bytea
LANGUAGE sql STABLE AS $$
    SELECT sha256(entry.previous_hash || convert_to(string_agg(
        octet_length(convert_to(field, 'UTF8')) || ':' || field, '' ORDER BY position
    ), 'UTF8'))
    FROM unnest(ARRAY[
        entry.sequence::text,
        (extract(epoch FROM entry.at) * 1000000)::bigint::text,
        entry.who,
        coalesce(entry.token_id::text, ''),
        entry.action,
        entry.object,
        entry.reason,
        entry.before,
        entry.after,
        entry.result,
        entry.request_id
    ]) WITH ORDINALITY AS fields (field, position)
$$;

CREATE FUNCTION audit_entry_chain() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    head audit_entry;
BEGIN
    -- Held until the writer commits: the next one then reads this entry as the head.
    PERFORM pg_advisory_xact_lock(hashtextextended('audit_entry', 0));
    SELECT * INTO head FROM audit_entry ORDER BY sequence DESC LIMIT 1;
    -- A program's end is durable, with its reason, in the transaction log before it comes here. Its
    -- entry need not make the next writer wait for the disk; a crash of the server can cost the
    -- newest of these entries, never one from the middle of the chain.
    IF NEW.action LIKE 'transaction.%' AND NEW.reason = '' THEN
        SET LOCAL synchronous_commit = off;
    END IF;
    NEW.sequence := coalesce(head.sequence, 0) + 1;
    NEW.at := clock_timestamp();
    NEW.previous_hash := coalesce(head.hash, ''::bytea);
    NEW.hash := audit_entry_hash(NEW);
    RETURN NEW;
END
$$;

CREATE FUNCTION audit_entry_refuse() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only: % refused', TG_OP
        USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER audit_entry_chain BEFORE INSERT ON audit_entry
    FOR EACH ROW EXECUTE FUNCTION audit_entry_chain();
CREATE TRIGGER audit_entry_no_change BEFORE UPDATE OR DELETE ON audit_entry
    FOR EACH ROW EXECUTE FUNCTION audit_entry_refuse();
CREATE TRIGGER audit_entry_no_truncate BEFORE TRUNCATE ON audit_entry
    FOR EACH STATEMENT EXECUTE FUNCTION audit_entry_refuse();
-- Also where session_replication_role is not "origin".
ALTER TABLE audit_entry ENABLE ALWAYS TRIGGER audit_entry_chain;
ALTER TABLE audit_entry ENABLE ALWAYS TRIGGER audit_entry_no_change;
ALTER TABLE audit_entry ENABLE ALWAYS TRIGGER audit_entry_no_truncate;

-- A second lock for a role that is no superuser; the triggers hold for everybody.
REVOKE UPDATE, DELETE, TRUNCATE ON audit_entry FROM PUBLIC, CURRENT_USER;
