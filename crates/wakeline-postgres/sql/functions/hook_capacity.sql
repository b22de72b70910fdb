-- Returns how many more attempts to an endpoint may begin now, if its gate is open: by its leases,
-- the probes of a breaker that is not closed, and its rate. Reads no table.

CREATE OR REPLACE FUNCTION @schema@.hook_capacity(
    p_fifo boolean, p_most bigint, p_live bigint, p_rate bigint, p_rate_at timestamptz,
    p_now timestamptz)
RETURNS integer
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    v_capacity bigint := p_most - p_live;
    v_step bigint;
    v_spare bigint;
BEGIN
    IF p_fifo THEN
        v_capacity := CASE WHEN p_live = 0 THEN 1 ELSE 0 END;
    END IF;
    IF p_rate IS NOT NULL AND v_capacity > 0 THEN
        v_step := 1000000000 / greatest(p_rate, 1) / 1000;
        IF v_step > 0 THEN
            v_spare := (1000000000 - 1000000000 / greatest(p_rate, 1)) / 1000
                - (extract(epoch FROM greatest(p_rate_at, p_now) - p_now) * 1000000)::bigint;
            v_capacity := least(
                v_capacity, CASE WHEN v_spare < 0 THEN 0 ELSE v_spare / v_step + 1 END);
        END IF;
    END IF;
    RETURN least(greatest(v_capacity, 0), 1000000);
END
$$;
