-- How long a message waits after its n-th counted failure. The same rule as
-- QueueOptions::after_failure; waits end at a hundred years, where timestamps still do.
-- Called by: message_fail.

CREATE OR REPLACE FUNCTION @schema@.retry_wait(
    p_failures integer, p_delay_ms bigint, p_delay_ms_max bigint, p_exponential boolean)
RETURNS interval
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_ms double precision := p_delay_ms;
BEGIN
    IF p_exponential THEN
        v_ms := v_ms * power(2::double precision, least(p_failures - 1, 62));
    END IF;
    v_ms := least(v_ms, greatest(p_delay_ms_max, p_delay_ms), 3155760000000);
    RETURN make_interval(secs => v_ms / 1000);
END
$$;
