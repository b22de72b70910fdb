-- Returns whether rows wait in incoming to be taken over. It makes one index probe whatever the
-- table's history: the plan does not depend on statistics, which are quickly outdated for such a
-- table. Claims and sweeps use it on nodes that receive no notifications. Reads only.

CREATE OR REPLACE FUNCTION @schema@.incoming_waits() RETURNS boolean
LANGUAGE plpgsql STABLE
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN EXISTS (SELECT FROM @schema@.incoming i WHERE i.refused IS NULL ORDER BY i.seq);
END
$$;
