-- The store's clock: the only one that decides visibility, leases and retries.
-- STABLE although it moves, so that it may be used in index conditions; callers read it once into
-- a variable, after their locks. Tests replace it by a clock that they can advance.

CREATE OR REPLACE FUNCTION @schema@.clock() RETURNS timestamptz
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN clock_timestamp();
END
$$;
