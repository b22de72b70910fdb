-- Returns how many messages were deleted between two offsets (NULL as the second: all that follow).
-- p_gaps: as in partitions and cursors. Reads only its parameters.

CREATE OR REPLACE FUNCTION @schema@.gap_len(
    p_gaps int8multirange, p_from bigint, p_to bigint)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_gaps IS NULL OR p_from >= p_to THEN
        RETURN 0;
    END IF;
    RETURN coalesce((SELECT sum(upper(r) - lower(r))
        FROM unnest(p_gaps * int8multirange(int8range(p_from, p_to))) AS r), 0)::bigint;
END
$$;
