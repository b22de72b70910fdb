-- Extends live leases to p_span_us from now. Returns those that are still held. Lock order:
-- deliveries by id, then states by id, of those whose leases end earlier than before.

CREATE OR REPLACE FUNCTION @schema@.hook_extend(
    p_deliveries bigint[], p_keys uuid[], p_span_us bigint)
RETURNS TABLE (command integer)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v_until timestamptz;
    v_live integer[];
    v_sooner uuid[];
BEGIN
    PERFORM FROM @schema@.hook_deliveries d WHERE d.delivery_id = ANY (p_deliveries)
    ORDER BY d.delivery_id FOR NO KEY UPDATE;
    v_now := @schema@.clock();
    v_until := v_now + p_span_us * interval '1 microsecond';
    SELECT array_agg(x.ord), array_agg(d.endpoint_id) FILTER (WHERE d.lease_until > v_until)
    INTO v_live, v_sooner
    FROM unnest(p_deliveries, p_keys) WITH ORDINALITY AS x (id, key, ord)
    JOIN @schema@.hook_deliveries d ON d.delivery_id = x.id
    WHERE d.state = 1 AND d.lease_key = x.key AND d.lease_until > v_now;
    UPDATE @schema@.hook_deliveries d SET lease_until = v_until
    WHERE d.delivery_id = ANY (ARRAY(SELECT p_deliveries[x.c] FROM unnest(v_live) AS x (c)));
    IF v_sooner IS NOT NULL THEN
        PERFORM FROM @schema@.hook_states k WHERE k.endpoint_id = ANY (v_sooner)
        ORDER BY k.endpoint_id FOR NO KEY UPDATE;
        UPDATE @schema@.hook_states k SET due_at = least(k.due_at, v_until)
        WHERE k.endpoint_id = ANY (v_sooner);
    END IF;
    RETURN QUERY SELECT x.c FROM unnest(v_live) AS x (c);
END
$$;
