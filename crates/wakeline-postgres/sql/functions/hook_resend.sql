-- Makes one more attempt of a delivery due now. code: 0 it is due, 1 an attempt is in flight, 2 the
-- delivery does not exist, 3 the payload has expired, 4 the endpoint is disabled. Lock order: the
-- endpoint, so that its order does not change meanwhile; the delivery, the state.

CREATE OR REPLACE FUNCTION @schema@.hook_resend(
    p_app uuid, p_app_uid text, p_message uuid, p_event_id text, p_id uuid, p_own text)
RETURNS TABLE (code smallint, endpoint uuid, pull boolean)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    m record;
    d record;
    s record;
    v_endpoint uuid := @schema@.hook_endpoint_find(p_app, p_app_uid, p_id, p_own);
BEGIN
    PERFORM FROM @schema@.hook_endpoints e
    WHERE e.endpoint_id = v_endpoint AND e.deleted_at IS NULL FOR KEY SHARE;
    IF NOT FOUND THEN
        code := 2; RETURN NEXT; RETURN;
    END IF;
    SELECT x.* INTO m FROM @schema@.hook_message_find(p_app, p_app_uid, p_message, p_event_id) x;
    SELECT k.delivery_id, k.endpoint_id, k.state, k.lease_until INTO d
    FROM @schema@.hook_deliveries k
    WHERE k.endpoint_id = v_endpoint AND k.message_id = m.message_id
    FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        code := 2; RETURN NEXT; RETURN;
    END IF;
    SELECT k.disabled, k.pull INTO s FROM @schema@.hook_states k
    WHERE k.endpoint_id = d.endpoint_id FOR NO KEY UPDATE;
    v_now := @schema@.clock();
    code := 0; endpoint := d.endpoint_id; pull := s.pull;
    IF d.state = 1 AND d.lease_until > v_now THEN
        code := 1;
    ELSIF NOT EXISTS (SELECT FROM @schema@.hook_messages k WHERE k.payload IS NOT NULL
        AND k.application_id = m.application_id AND k.message_id = m.message_id)
    THEN
        code := 3;
    ELSIF s.disabled IS NOT NULL THEN
        code := 4;
    ELSE
        PERFORM @schema@.hook_make_due(ARRAY[d.delivery_id], v_now);
        PERFORM @schema@.hook_endpoint_wake(d.endpoint_id, v_now);
    END IF;
    RETURN NEXT;
END
$$;
