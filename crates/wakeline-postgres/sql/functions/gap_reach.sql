-- Returns the offset after a given number of messages, counted from an offset that is in no gap.
-- p_gaps: as in partitions and cursors. Reads only its parameters.

CREATE OR REPLACE FUNCTION @schema@.gap_reach(
    p_gaps int8multirange, p_from bigint, p_count bigint)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    r int8range;
BEGIN
    IF p_gaps IS NOT NULL THEN
        FOR r IN SELECT x FROM unnest(p_gaps) AS x WHERE lower(x) >= p_from ORDER BY lower(x) LOOP
            EXIT WHEN lower(r) - p_from >= p_count;
            p_count := p_count + upper(r) - lower(r);
        END LOOP;
    END IF;
    RETURN p_from + p_count;
END
$$;
