-- Decides which messages of a call get their deliveries afterwards, in batches (see hook_fan_out),
-- so that the call creates a bounded number of them: a message for up to 10 endpoints never waits,
-- the others only if there would be more than 1000 deliveries together. (FAN_OUT_SMALL,
-- FAN_OUT_MAX) p_pairs, p_only: by message, as in hook_emit; p_wants: the pair, once per endpoint
-- that subscribes to it. Reads no table.

CREATE OR REPLACE FUNCTION @schema@.hook_emit_later(
    p_pairs integer[], p_only uuid[], p_wants integer[])
RETURNS boolean[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_left integer := 1000;
    v_sizes integer[];
    v_size integer;
    v_later boolean[] := '{}';
BEGIN
    SELECT array_agg(coalesce(w.size, 0) ORDER BY p.pair) INTO v_sizes
    FROM generate_series(1, (SELECT max(x) FROM unnest(p_pairs) AS x)) AS p (pair)
    LEFT JOIN (SELECT x.pair, count(*)::integer AS size FROM unnest(p_wants) AS x (pair)
        GROUP BY x.pair) w ON w.pair = p.pair;
    FOR n IN 1..cardinality(p_pairs) LOOP
        v_size := CASE WHEN p_only[n] IS NULL THEN v_sizes[p_pairs[n]] ELSE 1 END;
        v_later := v_later || (v_size > 10 AND v_size > v_left);
        IF v_size > 10 AND v_size <= v_left THEN
            v_left := v_left - v_size;
        END IF;
    END LOOP;
    RETURN v_later;
END
$$;
