-- Whether a consumer's lease that ends at p_until is over. One that ends later than two leases from now
-- is of before the clock has gone back.
CREATE OR REPLACE FUNCTION broker.has_lapsed(p_until timestamptz, p_lease_ms bigint, p_now timestamptz)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT p_until NOT BETWEEN p_now AND p_now + 2 * p_lease_ms * interval '1 millisecond'
$$;
