-- Let a role read this broker's log and state, and nothing else: what the pipeline reads by.
CREATE OR REPLACE FUNCTION broker.grant_reader(p_role text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA broker TO %I', p_role);
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA broker TO %I', p_role);
    EXECUTE format(
        'ALTER DEFAULT PRIVILEGES IN SCHEMA broker GRANT SELECT ON TABLES TO %I', p_role
    );
END
$$;
-- The group role txnconsole_reader; an owner who may not make roles has it made, and calls the
-- function. Roles are the server's: another database's migration may make it at the same moment.
DO $$
BEGIN
    BEGIN
        CREATE ROLE txnconsole_reader NOLOGIN;
    EXCEPTION
        WHEN duplicate_object OR unique_violation THEN NULL;
        WHEN insufficient_privilege THEN
            RAISE NOTICE 'role txnconsole_reader is missing, and this role may not make it';
    END;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'txnconsole_reader') THEN
        PERFORM broker.grant_reader('txnconsole_reader');
    END IF;
END
$$;
