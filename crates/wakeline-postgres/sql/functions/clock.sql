-- The store's clock, which alone decides visibility, leases and retries. It is the machine's clock,
-- but ahead of it after that was set back (clock_hold); then it runs slower by a tenth until both
-- agree. So no due work waits for the machine's clock to catch up. STABLE although it advances, so
-- that it may be used in index conditions; callers read it once into a variable, after taking their
-- locks. Reading the row costs about 5 microseconds.

CREATE OR REPLACE FUNCTION @schema@.clock() RETURNS timestamptz
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    v_machine timestamptz := @schema@.machine_clock();
    v_ahead interval;
BEGIN
    SELECT a.ahead - greatest(v_machine - a.since, '0') / 10 INTO v_ahead
    FROM @schema@.clock_ahead a WHERE a.ahead > '0';
    IF v_ahead > '0' THEN
        RETURN v_machine + v_ahead;
    END IF;
    RETURN v_machine;
END
$$;
