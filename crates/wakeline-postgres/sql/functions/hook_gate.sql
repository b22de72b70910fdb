-- Returns the time from which rate, breaker and throttle allow an attempt to an endpoint; NULL if
-- nothing ever limited it. The rate's time may be a second ahead, including the attempt. Reads
-- nothing.

CREATE OR REPLACE FUNCTION @schema@.hook_gate(
    p_throttled timestamptz, p_open timestamptz, p_probes bigint, p_rate bigint,
    p_rate_at timestamptz)
RETURNS timestamptz
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF p_probes IS NULL THEN
        p_open := NULL;
    END IF;
    IF p_rate IS NULL OR p_rate_at IS NULL THEN
        RETURN greatest(p_throttled, p_open);
    END IF;
    RETURN greatest(p_throttled, p_open, p_rate_at
        - (1000000000 - 1000000000 / greatest(p_rate, 1)) / 1000 * interval '1 microsecond');
END
$$;
