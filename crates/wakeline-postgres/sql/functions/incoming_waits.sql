-- Whether messages wait to be taken over from incoming. One probe of an index whatever the table
-- has seen: its plan is not left to statistics that a table like this one outruns.
-- Called by: QueueStore::claim and HookStore::claim_deliveries, while this node hears no notifications,
-- HookStore::sweep_hook. Reads only.

CREATE OR REPLACE FUNCTION @schema@.incoming_waits() RETURNS boolean
LANGUAGE plpgsql STABLE
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN EXISTS (SELECT FROM @schema@.incoming i WHERE i.refused IS NULL ORDER BY i.seq);
END
$$;
