-- Releases deliveries whose attempts were not made, as if they had not been claimed. Stale leases
-- are skipped. Returns the endpoints for which something waits again, and for how long. Lock order:
-- deliveries by id, then states by id.

CREATE OR REPLACE FUNCTION @schema@.hook_release(p_deliveries bigint[], p_keys uuid[])
RETURNS TABLE (endpoint uuid, pull boolean, due_us bigint)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v_ids uuid[];
    v_dues timestamptz[];
    v_fresh boolean[];
    v_states smallint[];
BEGIN
    PERFORM FROM @schema@.hook_deliveries d WHERE d.delivery_id = ANY (p_deliveries)
    ORDER BY d.delivery_id FOR NO KEY UPDATE;
    v_now := @schema@.clock();
    WITH given AS (
        UPDATE @schema@.hook_deliveries d SET
            state = CASE WHEN d.cancelled THEN 4 ELSE 0 END, cancelled = false,
            lease_key = NULL, lease_at = NULL, lease_until = NULL, updated_at = v_now
        FROM unnest(p_deliveries, p_keys) AS x (id, key)
        WHERE d.delivery_id = x.id AND d.state = 1 AND d.lease_key = x.key
            AND d.lease_until > v_now
        RETURNING d.endpoint_id, d.due_at, d.class, d.state
    )
    SELECT array_agg(g.endpoint_id), array_agg(g.due_at), array_agg(g.class IN (0, 3)),
        array_agg(g.state)
    INTO v_ids, v_dues, v_fresh, v_states FROM given g;
    PERFORM FROM @schema@.hook_states k WHERE k.endpoint_id = ANY (v_ids)
    ORDER BY k.endpoint_id FOR NO KEY UPDATE;
    RETURN QUERY
    UPDATE @schema@.hook_states k SET
        due_at = least(k.due_at, greatest(x.due_at, k.served_at),
            CASE WHEN k.held = 1 THEN coalesce(k.held_since, v_now) END),
        held = CASE WHEN k.held = 1 THEN 0 ELSE k.held END,
        fresh = k.fresh OR x.fresh OR k.held = 1
    FROM (SELECT g.id, min(g.due_at) FILTER (WHERE g.state = 0) AS due_at, bool_or(g.fresh) AS fresh
        FROM unnest(v_ids, v_dues, v_fresh, v_states) AS g (id, due_at, fresh, state)
        GROUP BY g.id) x
    WHERE k.endpoint_id = x.id
    RETURNING k.endpoint_id, k.pull,
        @schema@.hook_until(k.due_at, v_now);
END
$$;
