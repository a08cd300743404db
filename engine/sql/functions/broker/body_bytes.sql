-- How many bytes the stored batch of an entry has, here or in an offloaded file: a reference begins
-- with the version 2, tells the length behind the file's id, and is never longer than 39 bytes
-- (engine/model/batch.py). length() and so this reads nothing of a batch that stands out of line.
CREATE OR REPLACE FUNCTION broker.body_bytes(p_body bytea) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN length(p_body) BETWEEN 21 AND 39 AND substr(p_body, 1, 1) = '\x02'
        THEN (get_byte(p_body, 17) << 24) + (get_byte(p_body, 18) << 16)
            + (get_byte(p_body, 19) << 8) + get_byte(p_body, 20)
        ELSE length(p_body) END
$$;
