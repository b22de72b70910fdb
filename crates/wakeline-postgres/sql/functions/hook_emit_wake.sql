-- Ensures that endpoints are due for new deliveries that are about to be inserted. Those that are
-- due early enough, or held back, are not even locked. Lock order: states by id.

CREATE OR REPLACE FUNCTION @schema@.hook_emit_wake(p_endpoints uuid[], p_now timestamptz)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM @schema@.hook_states k
    WHERE k.endpoint_id = ANY (p_endpoints) AND k.disabled IS NULL
        AND (NOT k.fresh OR k.held = 0 AND (k.due_at IS NULL OR k.due_at > p_now))
    ORDER BY k.endpoint_id FOR NO KEY UPDATE;
    IF FOUND THEN
        UPDATE @schema@.hook_states k SET fresh = true,
            due_at = CASE WHEN k.held = 0 THEN least(k.due_at, p_now) ELSE k.due_at END
        WHERE k.endpoint_id = ANY (p_endpoints) AND k.disabled IS NULL
            AND (NOT k.fresh OR k.held = 0 AND (k.due_at IS NULL OR k.due_at > p_now));
    END IF;
END
$$;
