-- Returns an endpoint's rate time after some attempts. Reads no table.

CREATE OR REPLACE FUNCTION @schema@.hook_rate_after(
    p_rate bigint, p_rate_at timestamptz, p_attempts integer, p_now timestamptz)
RETURNS timestamptz
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF p_rate IS NULL OR p_attempts = 0 THEN
        RETURN p_rate_at;
    END IF;
    RETURN greatest(p_rate_at, p_now)
        + p_attempts * (1000000000 / greatest(p_rate, 1) / 1000) * interval '1 microsecond';
END
$$;
