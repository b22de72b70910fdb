-- Returns the first offset of a partition whose message was pushed at or after a time, or its end.
-- created_at never decreases within a partition, so the offsets are found by binary search: no
-- index over times is needed. Reads only.

CREATE OR REPLACE FUNCTION @schema@.offset_since(
    p_partition bigint, p_end bigint, p_from timestamptz)
RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_low bigint := 0;
    v_high bigint := p_end;
    s record;
BEGIN
    -- Everything below v_low is older than p_from; nothing from v_high on is.
    WHILE v_low < v_high LOOP
        SELECT g.first_offset, g.first_offset + g.len AS last, g.created_at INTO s
        FROM @schema@.segments g
        WHERE g.partition_id = p_partition AND g.first_offset <= (v_low + v_high) / 2
        ORDER BY g.first_offset DESC LIMIT 1;
        IF s.first_offset IS NULL OR s.last <= v_low THEN
            v_low := (v_low + v_high) / 2 + 1;
        ELSIF s.created_at < p_from THEN
            v_low := s.last;
        ELSE
            v_high := s.first_offset;
        END IF;
    END LOOP;
    RETURN v_high;
END
$$;
