-- Returns the first offset, beginning with a given one, that is in no gap and is therefore a valid
-- position of a cursor. p_gaps: as in partitions and cursors. Reads only its parameters.

CREATE OR REPLACE FUNCTION @schema@.gap_end(p_gaps int8multirange, p_offset bigint)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_gaps IS NULL OR NOT p_gaps @> p_offset THEN
        RETURN p_offset;
    END IF;
    RETURN (SELECT upper(r) FROM unnest(p_gaps) AS r WHERE r @> p_offset);
END
$$;
