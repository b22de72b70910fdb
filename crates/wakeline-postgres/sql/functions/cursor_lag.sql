-- Returns the number of messages that a cursor still has to read or to settle: unread, parked, and
-- those of the log under a lease; deleted ones do not count. p_end: the end of the partition's log.
-- Reads only its parameters.

CREATE OR REPLACE FUNCTION @schema@.cursor_lag(p_cursor @schema@.cursors, p_end bigint)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN p_end - p_cursor.next_offset + p_cursor.parked + CASE
        WHEN p_cursor.lease_set IS NULL THEN 0
        ELSE coalesce((SELECT sum(upper(r) - lower(r)) FROM unnest(p_cursor.lease_set
            * int8multirange(int8range(p_cursor.lease_start, NULL))) AS r), 0) END
        - CASE WHEN p_cursor.gaps IS NULL THEN 0
            ELSE @schema@.gap_len(p_cursor.gaps, p_cursor.next_offset, p_end) END;
END
$$;
