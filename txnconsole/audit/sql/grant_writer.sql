-- Let a role change rows of the console's tables, those that later migrations make too, but of the
-- audit log only add some: it owns no table, so that it cannot drop a trigger or a right either
-- (design/quality.md, Security). Tables of the engine: coordinator.grant_writer.
CREATE FUNCTION grant_writer(p_role text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA public TO %I', p_role);
    EXECUTE format(
        'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO %I', p_role
    );
    EXECUTE format('GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO %I', p_role);
    EXECUTE format(
        'ALTER DEFAULT PRIVILEGES IN SCHEMA public'
        ' GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO %I', p_role
    );
    EXECUTE format(
        'ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE ON SEQUENCES TO %I', p_role
    );
    EXECUTE format('REVOKE UPDATE, DELETE ON audit_entry FROM %I', p_role);
END
$$;
-- The group role; an owner who may not make roles has it made, and calls the function.
DO $$
BEGIN
    BEGIN
        CREATE ROLE txnconsole_writer NOLOGIN;
    EXCEPTION
        WHEN duplicate_object OR unique_violation THEN NULL;
        WHEN insufficient_privilege THEN
            RAISE NOTICE 'role txnconsole_writer is to be made by somebody who may';
    END;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'txnconsole_writer') THEN
        PERFORM grant_writer('txnconsole_writer');
    END IF;
END
$$;
