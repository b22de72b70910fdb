-- Creates a batch of the deliveries that emits have left for later: for at most p_rows endpoints of
-- one message. Applications take turns: the next one after p_after. Within an application, messages
-- are processed one after another, so that ordered endpoints get them in that order. An endpoint
-- gets a message if it is older than the message and subscribes to it now. Returns one row of kind
-- 0: the number of endpoints that it checked (at least 1, or 0 if there was nothing to do), whether
-- fan-outs are left, and the application; and rows of kind 1 for endpoints that have something to
-- do now: all whose owners fetch, and one of the others. Lock order: the fan-out, without waiting;
-- endpoints by id (as hook_emit holds them), deliveries, states by id.

CREATE OR REPLACE FUNCTION @schema@.hook_fan_out(p_after uuid, p_rows integer)
RETURNS TABLE (kind smallint, rows bigint, more boolean, endpoint uuid, pull boolean)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    c_first CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    v_after uuid := coalesce(p_after, c_first);
    v_app uuid;
    v_now timestamptz;
    v_ids uuid[];
    v_made uuid[];
    f record;
    m record;
BEGIN
    -- One that another node is processing is skipped, with all that waits after it.
    FOR v_try IN 1..10 LOOP
        SELECT k.application_id INTO v_app FROM @schema@.hook_fan_outs k
        WHERE k.application_id > v_after ORDER BY k.application_id, k.fan_out_no LIMIT 1;
        IF v_app IS NULL AND v_after = c_first THEN
            EXIT;
        ELSIF v_app IS NULL THEN
            v_after := c_first;
            CONTINUE;
        END IF;
        SELECT k.* INTO f FROM @schema@.hook_fan_outs k
        WHERE k.application_id = v_app AND k.fan_out_no = (
            SELECT h.fan_out_no FROM @schema@.hook_fan_outs h WHERE h.application_id = v_app
            ORDER BY h.fan_out_no LIMIT 1)
        FOR UPDATE SKIP LOCKED;
        EXIT WHEN FOUND;
        v_after := v_app; v_app := NULL;
    END LOOP;
    kind := 0; rows := 0;
    IF v_app IS NOT NULL THEN
        IF f.only_endpoint IS NOT NULL THEN
            v_ids := ARRAY[f.only_endpoint];
        ELSE
            v_ids := ARRAY(
                SELECT DISTINCT w.endpoint_id FROM unnest(f.patterns) AS p (pattern)
                CROSS JOIN LATERAL (
                    SELECT w.endpoint_id FROM @schema@.hook_filters w
                    WHERE w.application_id = v_app AND w.pattern = p.pattern
                        AND w.endpoint_id > coalesce(f.place, c_first)
                    ORDER BY w.endpoint_id LIMIT p_rows) w
                ORDER BY w.endpoint_id LIMIT p_rows);
        END IF;
        SELECT k.channels, k.created_at INTO m FROM @schema@.hook_messages k
        WHERE k.application_id = v_app AND k.message_id = f.message_id;
        PERFORM FROM unnest(v_ids) AS x (id)
        CROSS JOIN LATERAL (SELECT FROM @schema@.hook_endpoints e
            WHERE e.endpoint_id = x.id OFFSET 0 FOR KEY SHARE) e;
        PERFORM FROM @schema@.hook_endpoints e
        WHERE e.endpoint_id = ANY (v_ids) AND e.fifo_batch IS NOT NULL
        ORDER BY e.endpoint_id FOR NO KEY UPDATE;
        v_now := @schema@.clock();
        WITH made AS (
            INSERT INTO @schema@.hook_deliveries (endpoint_id, message_id, state, class, fifo,
                due_at, created_at, updated_at)
            SELECT x.id, f.message_id, 0, 0, e.fifo, v_now, v_now, v_now
            FROM unnest(v_ids) WITH ORDINALITY AS x (id, ord)
            CROSS JOIN LATERAL (
                SELECT e.fifo_batch IS NOT NULL AS fifo FROM @schema@.hook_endpoints e
                WHERE e.endpoint_id = x.id AND e.application_id = v_app AND e.deleted_at IS NULL
                    AND (f.only_endpoint IS NOT NULL OR e.created_at <= m.created_at
                        AND (e.channels = '{}' OR e.channels && m.channels)) OFFSET 0) e
            CROSS JOIN LATERAL (
                SELECT FROM @schema@.hook_states s WHERE s.endpoint_id = x.id
                    AND (f.only_endpoint IS NOT NULL OR s.disabled IS NULL) OFFSET 0) s
            ORDER BY x.ord
            -- A job may have created it meanwhile.
            ON CONFLICT DO NOTHING
            RETURNING endpoint_id
        )
        SELECT array_agg(k.endpoint_id) INTO v_made FROM made k;
        PERFORM @schema@.hook_emit_wake(v_made, v_now);
        IF f.only_endpoint IS NOT NULL OR cardinality(v_ids) < p_rows THEN
            DELETE FROM @schema@.hook_fan_outs k
            WHERE k.application_id = v_app AND k.fan_out_no = f.fan_out_no;
        ELSE
            UPDATE @schema@.hook_fan_outs k SET place = v_ids[p_rows]
            WHERE k.application_id = v_app AND k.fan_out_no = f.fan_out_no;
        END IF;
        rows := greatest(cardinality(v_ids), 1);
    END IF;
    more := EXISTS (SELECT FROM @schema@.hook_fan_outs k);
    endpoint := v_app;
    RETURN NEXT;
    RETURN QUERY
    SELECT 1::smallint, NULL::bigint, NULL::boolean, s.endpoint_id, s.pull
    FROM @schema@.hook_states s WHERE s.endpoint_id = ANY (v_made) AND s.pull;
    RETURN QUERY
    SELECT 1::smallint, NULL::bigint, NULL::boolean, s.endpoint_id, s.pull
    FROM @schema@.hook_states s WHERE s.endpoint_id = ANY (v_made) AND NOT s.pull LIMIT 1;
END
$$;
