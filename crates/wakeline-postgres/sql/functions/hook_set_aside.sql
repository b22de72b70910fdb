-- Gives leases back, uncounted, of which something cannot be read, and keeps claims away from that for a
-- while: due at once it would be the first that every claim meets. By lease: p_deliveries, p_keys;
-- p_own: it is the delivery itself that cannot be read. p_endpoints: those that cannot be read;
-- what waits for them waits for the time (held 2), so that emits leave it at that. p_us: how long.
-- Called by: HookStore::claim_deliveries and HookStore::emit. Lock order: as hook_release.

CREATE OR REPLACE FUNCTION @schema@.hook_set_aside(
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
