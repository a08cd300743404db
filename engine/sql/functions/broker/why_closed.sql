-- Why a partition takes nothing: 'recovering' without a head, 'offline', or 'not_found'.
CREATE OR REPLACE FUNCTION broker.why_closed(p_partition bigint) RETURNS text
LANGUAGE sql AS $$
    SELECT CASE
        WHEN p.partition_id IS NULL THEN 'not_found'
        WHEN NOT p.online THEN 'offline'
        ELSE 'recovering'
    END
    FROM (SELECT p_partition AS partition_id) wanted
    LEFT JOIN broker.partition p USING (partition_id)
$$;
