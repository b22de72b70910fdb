-- Returns when there is background work: now if a job runs, if deliveries of a stored message have
-- not been created yet, or if something deleted left rows, else when the first payload, key or
-- finished job expires; NULL if there is none. Reads only.

CREATE OR REPLACE FUNCTION @schema@.hook_background_due(p_now timestamptz) RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_payload timestamptz;
    v_key timestamptz;
    v_job timestamptz;
BEGIN
    IF EXISTS (SELECT FROM @schema@.hook_jobs j WHERE j.finished_at IS NULL ORDER BY j.job_no)
        OR EXISTS (SELECT FROM @schema@.hook_fan_outs f)
        OR EXISTS (SELECT FROM @schema@.hook_endpoints e WHERE e.cancelling ORDER BY e.endpoint_id)
        OR EXISTS (SELECT FROM @schema@.hook_applications a WHERE a.deleted_at IS NOT NULL
            ORDER BY a.deleted_at)
    THEN
        RETURN p_now;
    END IF;
    SELECT m.expires_at INTO v_payload FROM @schema@.hook_messages m
    WHERE m.payload IS NOT NULL ORDER BY m.expires_at LIMIT 1;
    SELECT k.expires_at INTO v_key FROM @schema@.hook_keys k ORDER BY k.expires_at LIMIT 1;
    SELECT j.finished_at + interval '7 days' INTO v_job FROM @schema@.hook_jobs j
    WHERE j.finished_at IS NOT NULL ORDER BY j.finished_at LIMIT 1;
    RETURN least(v_payload, v_key, v_job);
END
$$;
