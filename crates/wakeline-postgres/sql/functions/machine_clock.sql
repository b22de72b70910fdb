-- The clock of the database's machine, which may be set. Only clock and clock_hold read it. Tests
-- replace it by one that they can advance.

CREATE OR REPLACE FUNCTION @schema@.machine_clock() RETURNS timestamptz
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN clock_timestamp();
END
$$;
