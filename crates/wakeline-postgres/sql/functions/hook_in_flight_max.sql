-- Returns how many attempts of an endpoint may be in flight: its own limit, or the number of probes
-- while its circuit breaker is open or half-open (p_open is set). Reads no table.

CREATE OR REPLACE FUNCTION @schema@.hook_in_flight_max(
    p_in_flight_max bigint, p_open timestamptz, p_probes bigint)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF p_open IS NOT NULL AND p_probes IS NOT NULL THEN
        RETURN greatest(least(p_in_flight_max, p_probes), 1);
    END IF;
    RETURN greatest(p_in_flight_max, 1);
END
$$;
