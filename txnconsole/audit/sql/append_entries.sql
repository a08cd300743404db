-- Entries in the order of the arrays; the trigger gives each its number, time and hash.
INSERT INTO audit_entry
    (who, token_id, action, object, reason, before, after, result, request_id)
SELECT * FROM unnest(
    %(who)s::text[], %(token_id)s::bigint[], %(action)s::text[], %(object)s::text[],
    %(reason)s::text[], %(before)s::text[], %(after)s::text[], %(result)s::text[],
    %(request_id)s::text[]
)
