-- Returns the maximum number of attempts of an endpoint in flight: its limit, or the probes of a
-- breaker that is not closed. Reads nothing.

CREATE OR REPLACE FUNCTION @schema@.hook_most(
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
