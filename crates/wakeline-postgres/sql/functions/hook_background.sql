-- Executes a batch of background work on at most p_rows rows: cancels deliveries that wait for a
-- deleted endpoint, else continues the oldest job, once all deliveries of its application are
-- created, else removes expired payloads, the rest of deleted applications, and expired keys and
-- finished jobs. Returns one row of kind 0: the number of rows, and the microseconds until the next
-- batch is due; and one of kind 1 per endpoint for which something waits now. Lock order: jobs and
-- payloads without waiting; then see hook_job_go.

CREATE OR REPLACE FUNCTION @schema@.hook_background(p_rows integer)
RETURNS TABLE (kind smallint, rows bigint, due_us bigint, endpoint uuid, pull boolean)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := @schema@.clock();
    v_due timestamptz;
    v_endpoint uuid;
    v_job bigint;
    v_rows bigint := 0;
    g record;
BEGIN
    SELECT e.endpoint_id INTO v_endpoint FROM @schema@.hook_endpoints e WHERE e.cancelling
    ORDER BY e.endpoint_id LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF v_endpoint IS NOT NULL THEN
        v_rows := greatest(@schema@.hook_endpoint_cancel(v_endpoint, p_rows, v_now), 1);
    END IF;
    SELECT j.job_no INTO v_job FROM @schema@.hook_jobs j WHERE j.finished_at IS NULL
        AND NOT EXISTS (
            SELECT FROM @schema@.hook_fan_outs f WHERE f.application_id = j.application_id)
        AND v_endpoint IS NULL
    ORDER BY j.job_no LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF v_job IS NOT NULL THEN
        SELECT x.* INTO g FROM @schema@.hook_job_go(v_job, p_rows, v_now) x;
        v_rows := g.o_read;
        RETURN QUERY
        SELECT 1::smallint, NULL::bigint, w.due_us, w.endpoint, w.pull
        FROM @schema@.hook_wake(g.o_changed, v_now) w;
    ELSIF v_endpoint IS NULL THEN
        UPDATE @schema@.hook_messages m SET payload = NULL
        FROM (
            SELECT k.application_id, k.message_id FROM @schema@.hook_messages k
            WHERE k.payload IS NOT NULL AND k.expires_at <= v_now
            ORDER BY k.expires_at LIMIT p_rows FOR NO KEY UPDATE SKIP LOCKED) x
        WHERE m.application_id = x.application_id AND m.message_id = x.message_id;
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        IF v_rows = 0 THEN
            v_rows := @schema@.hook_leftovers(p_rows);
        END IF;
        IF v_rows = 0 THEN
            DELETE FROM @schema@.hook_keys t USING (
                SELECT k.kind, k.application_id, k.key FROM @schema@.hook_keys k
                WHERE k.expires_at <= v_now
                ORDER BY k.expires_at LIMIT p_rows FOR UPDATE SKIP LOCKED) x
            WHERE t.kind = x.kind AND t.application_id = x.application_id AND t.key = x.key;
            GET DIAGNOSTICS v_rows = ROW_COUNT;
        END IF;
        IF v_rows = 0 THEN
            DELETE FROM @schema@.hook_jobs t WHERE t.job_no IN (
                SELECT j.job_no FROM @schema@.hook_jobs j
                WHERE j.finished_at <= v_now - interval '7 days'
                ORDER BY j.finished_at LIMIT p_rows FOR UPDATE SKIP LOCKED);
            GET DIAGNOSTICS v_rows = ROW_COUNT;
        END IF;
    END IF;
    v_due := @schema@.hook_background_due(v_now);
    kind := 0; rows := v_rows; endpoint := NULL; pull := NULL;
    due_us := @schema@.hook_until(v_due, v_now);
    -- Work that is due but was not done is locked by another node.
    IF due_us = 0 AND v_rows = 0 AND v_job IS NULL THEN
        due_us := 100000;
    END IF;
    RETURN NEXT;
END
$$;
