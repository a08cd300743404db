-- Entries in the order of the arrays; the trigger gives each its number, time and hash.
INSERT INTO audit_entry
    (who, token_id, action, object, reason, before, after, result, request_id)
SELECT * FROM unnest(
    %s::text[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
    %s::text[], %s::text[]
)
