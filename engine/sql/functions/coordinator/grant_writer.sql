-- Let a role change rows, as broker.grant_writer does on a broker; the console's own tables are
-- granted apart (txnconsole/audit/sql/grant_writer.sql).
CREATE OR REPLACE FUNCTION coordinator.grant_writer(p_role text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA coordinator TO %I', p_role);
    EXECUTE format(
        'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA coordinator TO %I', p_role
    );
    EXECUTE format('GRANT USAGE ON ALL SEQUENCES IN SCHEMA coordinator TO %I', p_role);
    EXECUTE format(
        'ALTER DEFAULT PRIVILEGES IN SCHEMA coordinator'
        ' GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO %I', p_role
    );
    EXECUTE format(
        'ALTER DEFAULT PRIVILEGES IN SCHEMA coordinator GRANT USAGE ON SEQUENCES TO %I', p_role
    );
END
$$;
-- The group role txnconsole_writer, as on a broker.
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
        PERFORM coordinator.grant_writer('txnconsole_writer');
    END IF;
END
$$;
