-- The last offset that stood in a partition's log at a moment; one below the log's start when
-- nothing of what is kept did. A binary search by the entries' publish times, which the partition's
-- lock puts in order (as far as the server's clock does not step back): it reads as many entries as
-- the log's length has binary digits.
CREATE OR REPLACE FUNCTION broker.offset_at(p_partition bigint, p_at timestamptz)
RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    low bigint;
    high bigint;
    middle bigint;
    entry record;
BEGIN
    SELECT l.log_start_offset - 1, l.next_offset - 1 INTO low, high
        FROM broker.partition_live l WHERE l.partition_id = p_partition;
    -- What ends at or below low stood there; what begins above high did not.
    WHILE low < high LOOP
        middle := low + (high - low + 1) / 2;
        SELECT e.first_offset, e.last_offset, e.publish_time INTO entry FROM broker.entry e
            WHERE e.partition_id = p_partition AND e.last_offset >= middle
            ORDER BY e.last_offset LIMIT 1;
        IF entry.publish_time <= p_at THEN
            low := entry.last_offset;
        ELSE
            high := least(entry.first_offset, middle) - 1;
        END IF;
    END LOOP;
    RETURN low;
END
$$;
