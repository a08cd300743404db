-- Let a role read the transactions and their log, as broker.grant_reader lets it read a broker. The
-- tables of the console in the same database (users, tokens, audit) are none of its business.
CREATE OR REPLACE FUNCTION coordinator.grant_reader(p_role text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA coordinator TO %I', p_role);
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA coordinator TO %I', p_role);
    EXECUTE format(
        'ALTER DEFAULT PRIVILEGES IN SCHEMA coordinator GRANT SELECT ON TABLES TO %I', p_role
    );
END
$$;
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
        PERFORM coordinator.grant_reader('txnconsole_reader');
    END IF;
END
$$;
