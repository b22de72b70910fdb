-- Returns the state of a delivery: 0 pending, 1 in flight, 2 retrying, 3 throttled, 4 delivered, 5
-- failed, 6 cancelled. p_off: its endpoint is disabled or deleted; p_gate: the time from which the
-- endpoint accepts attempts. Reads no table.

CREATE OR REPLACE FUNCTION @schema@.hook_delivery_state(
    p_state smallint, p_attempts integer, p_due timestamptz, p_off boolean, p_gate timestamptz,
    p_now timestamptz)
RETURNS smallint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN CASE p_state WHEN 1 THEN 1 WHEN 2 THEN 4 WHEN 3 THEN 5 WHEN 4 THEN 6
        ELSE CASE WHEN p_due <= p_now AND (p_off OR p_gate > p_now) THEN 3
            WHEN p_attempts = 0 THEN 0 ELSE 2 END END;
END
$$;
