-- Returns the first offset from p_next on whose message was pushed after a time, or p_end. One
-- index probe if that is p_next itself; p_next if the time is NULL. Reads only.

CREATE OR REPLACE FUNCTION @schema@.log_cut(
    p_partition bigint, p_next bigint, p_end bigint, p_until timestamptz)
RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_head timestamptz;
BEGIN
    IF p_until IS NULL OR p_next >= p_end THEN
        RETURN p_next;
    END IF;
    SELECT s.created_at INTO v_head FROM @schema@.segments s
    WHERE s.partition_id = p_partition AND s.first_offset <= p_next
    ORDER BY s.first_offset DESC LIMIT 1;
    IF v_head > p_until THEN
        RETURN p_next;
    END IF;
    RETURN greatest(p_next, @schema@.offset_since(
        p_partition, p_end, p_until + interval '1 microsecond'));
END
$$;
