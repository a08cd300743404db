-- How many bytes each principal's answers take. The sum is kept by whatever adds, changes or removes
-- rows, in the same SQL transaction, so it cannot differ from them. A row counts 1024 bytes beside its
-- answer; make_room.sql counts the same.

CREATE FUNCTION idempotency_sum() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    -- In order, since several statements at once may touch the sums of several principals.
    IF TG_OP = 'INSERT' THEN
        INSERT INTO idempotency_keptbytes AS kept (principal, bytes)
        SELECT principal, sum(1024 + octet_length(body)) FROM added
        GROUP BY principal ORDER BY principal
        ON CONFLICT (principal) DO UPDATE SET bytes = kept.bytes + excluded.bytes;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO idempotency_keptbytes AS kept (principal, bytes)
        SELECT principal, sum(bytes)
        FROM (
            SELECT principal, octet_length(body) AS bytes FROM added
            UNION ALL
            SELECT principal, -octet_length(body) FROM removed
        ) AS changes
        GROUP BY principal HAVING sum(bytes) <> 0 ORDER BY principal
        ON CONFLICT (principal) DO UPDATE SET bytes = kept.bytes + excluded.bytes;
    ELSE
        INSERT INTO idempotency_keptbytes AS kept (principal, bytes)
        SELECT principal, -sum(1024 + octet_length(body)) FROM removed
        GROUP BY principal ORDER BY principal
        ON CONFLICT (principal) DO UPDATE SET bytes = kept.bytes + excluded.bytes;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER idempotency_sum_of_added AFTER INSERT ON idempotency_keptanswer
    REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION idempotency_sum();
CREATE TRIGGER idempotency_sum_of_changed AFTER UPDATE ON idempotency_keptanswer
    REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION idempotency_sum();
CREATE TRIGGER idempotency_sum_of_removed AFTER DELETE ON idempotency_keptanswer
    REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION idempotency_sum();

-- What stands there already.
INSERT INTO idempotency_keptbytes (principal, bytes)
SELECT principal, sum(1024 + octet_length(body)) FROM idempotency_keptanswer GROUP BY principal;
