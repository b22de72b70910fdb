-- Quarantines corrupt rows: releases leases without counting an attempt, and makes claims skip the
-- rows for a while; if they were due at once, every claim would find them first. By lease:
-- p_deliveries, p_keys; p_own: the delivery itself is corrupt. p_endpoints: corrupt endpoints;
-- their deliveries wait for the time (held 2), which emits do not change. p_us: the length of the
-- quarantine. Lock order: as hook_release.

CREATE OR REPLACE FUNCTION @schema@.hook_quarantine(
    p_deliveries bigint[], p_keys uuid[], p_own boolean[], p_endpoints uuid[], p_us bigint)
RETURNS void
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_until timestamptz;
BEGIN
    PERFORM FROM @schema@.hook_deliveries d WHERE d.delivery_id = ANY (p_deliveries)
    ORDER BY d.delivery_id FOR NO KEY UPDATE;
    v_until := @schema@.clock() + p_us * interval '1 microsecond';
    UPDATE @schema@.hook_deliveries d SET due_at = v_until
    FROM unnest(p_deliveries, p_keys, p_own) AS x (id, key, own)
    WHERE d.delivery_id = x.id AND x.own AND d.state = 1 AND d.lease_key = x.key;
    PERFORM FROM @schema@.hook_release(p_deliveries, p_keys);
    PERFORM FROM @schema@.hook_states k WHERE k.endpoint_id = ANY (p_endpoints)
    ORDER BY k.endpoint_id FOR NO KEY UPDATE;
    UPDATE @schema@.hook_states k SET due_at = v_until, held = 2, held_since = NULL
    WHERE k.endpoint_id = ANY (p_endpoints);
END
$$;
