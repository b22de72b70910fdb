-- Deletes an endpoint for readers. Its waiting deliveries are cancelled, if there are very many,
-- the rest by background work (o_more); deliveries in flight are cancelled when their attempts end.
-- o_gone is false if it does not exist. Lock order: the endpoint FOR UPDATE, its deliveries by id,
-- its state.

CREATE OR REPLACE FUNCTION @schema@.hook_endpoint_delete(
    p_app uuid, p_app_uid text, p_id uuid, p_own text, OUT o_gone boolean, OUT o_more boolean)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_now timestamptz;
    e record;
BEGIN
    SELECT k.endpoint_id, k.application_id, k.event_types INTO e FROM @schema@.hook_endpoints k
    WHERE k.endpoint_id = @schema@.hook_endpoint_find(p_app, p_app_uid, p_id, p_own)
        AND k.deleted_at IS NULL
    FOR UPDATE;
    o_gone := FOUND; o_more := false;
    IF NOT o_gone THEN
        RETURN;
    END IF;
    v_now := @schema@.clock();
    UPDATE @schema@.hook_endpoints k SET deleted_at = v_now WHERE k.endpoint_id = e.endpoint_id;
    DELETE FROM @schema@.hook_filters f WHERE f.application_id = e.application_id
        AND f.endpoint_id = e.endpoint_id AND f.pattern = ANY (
            CASE WHEN e.event_types = '{}' THEN ARRAY['*'] ELSE e.event_types END);
    o_more := @schema@.hook_endpoint_cancel(e.endpoint_id, 500, v_now) >= 500;
    PERFORM FROM @schema@.hook_deliveries d
    WHERE d.endpoint_id = e.endpoint_id AND d.state = 1
    ORDER BY d.delivery_id FOR NO KEY UPDATE;
    UPDATE @schema@.hook_deliveries d SET cancelled = true, updated_at = v_now
    WHERE d.endpoint_id = e.endpoint_id AND d.state = 1;
    PERFORM FROM @schema@.hook_states s WHERE s.endpoint_id = e.endpoint_id FOR NO KEY UPDATE;
    PERFORM @schema@.hook_endpoint_wake(e.endpoint_id, v_now);
END
$$;
