-- How long a decision waits at most until it is tried again at participants that have not carried it out.
CREATE OR REPLACE FUNCTION coordinator.longest_pause() RETURNS interval
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT interval '10 seconds' $$;
