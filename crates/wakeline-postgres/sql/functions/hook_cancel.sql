-- Cancels the waiting deliveries of a message, for all endpoints (p_all) or one. Returns no row if
-- the message does not exist; otherwise one with their number, and one for each endpoint that has
-- something now, or in some microseconds. Lock order: the fan-out, deliveries by id, states by id;
-- endpoints without waiting.

CREATE OR REPLACE FUNCTION @schema@.hook_cancel(
    p_app uuid, p_app_uid text, p_message uuid, p_event_id text, p_all boolean, p_id uuid,
    p_own text)
RETURNS TABLE (cancelled bigint, endpoint uuid, pull boolean, due_us bigint)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v_one uuid;
    m record;
    v_ids bigint[];
BEGIN
    SELECT x.* INTO m FROM @schema@.hook_message_find(p_app, p_app_uid, p_message, p_event_id) x;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF p_all THEN
        DELETE FROM @schema@.hook_fan_outs f
        WHERE f.application_id = m.application_id AND f.message_id = m.message_id;
        SELECT array_agg(k.delivery_id) INTO v_ids FROM (
            SELECT d.delivery_id FROM @schema@.hook_endpoints e
            JOIN @schema@.hook_deliveries d
                ON d.endpoint_id = e.endpoint_id AND d.message_id = m.message_id
            WHERE e.application_id = m.application_id
            ORDER BY d.delivery_id FOR NO KEY UPDATE OF d) k;
    ELSE
        v_one := @schema@.hook_endpoint_find(p_app, p_app_uid, p_id, p_own);
        SELECT array_agg(k.delivery_id) INTO v_ids FROM (
            SELECT d.delivery_id FROM @schema@.hook_deliveries d
            WHERE d.endpoint_id = v_one AND d.message_id = m.message_id
            FOR NO KEY UPDATE) k;
    END IF;
    v_now := @schema@.clock();
    v_ids := @schema@.hook_give_up(v_ids, v_now);
    cancelled := coalesce(cardinality(v_ids), 0);
    RETURN NEXT;
    RETURN QUERY SELECT NULL::bigint, w.endpoint, w.pull, w.due_us
    FROM @schema@.hook_wake(v_ids, v_now) w;
END
$$;
