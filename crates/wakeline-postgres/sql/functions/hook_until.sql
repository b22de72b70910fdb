-- Returns the microseconds until a time: 0 if it has passed, NULL if there is none. Reads no table.

CREATE OR REPLACE FUNCTION @schema@.hook_until(p_at timestamptz, p_now timestamptz) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
BEGIN
    IF p_at <= p_now THEN
        RETURN 0;
    END IF;
    RETURN ceil(extract(epoch FROM p_at - p_now) * 1000000)::bigint;
END
$$;
