-- Let a role change rows, as the processes do: it owns nothing, and alters no table, function or
-- trigger.
CREATE OR REPLACE FUNCTION broker.grant_writer(p_role text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA broker TO %I', p_role);
    EXECUTE format(
        'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA broker TO %I', p_role
    );
    EXECUTE format('GRANT USAGE ON ALL SEQUENCES IN SCHEMA broker TO %I', p_role);
    EXECUTE format(
        'ALTER DEFAULT PRIVILEGES IN SCHEMA broker'
        ' GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO %I', p_role
    );
    EXECUTE format(
        'ALTER DEFAULT PRIVILEGES IN SCHEMA broker GRANT USAGE ON SEQUENCES TO %I', p_role
    );
END
$$;
-- The group role txnconsole_writer, as grant_reader.sql makes the readers'.
DO $$
BEGIN
    BEGIN
        CREATE ROLE txnconsole_writer NOLOGIN;
    EXCEPTION
        WHEN duplicate_object OR unique_violation THEN NULL;
        WHEN insufficient_privilege THEN
            RAISE NOTICE 'role txnconsole_writer is missing, and this role may not make it';
    END;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'txnconsole_writer') THEN
        PERFORM broker.grant_writer('txnconsole_writer');
    END IF;
END
$$;
