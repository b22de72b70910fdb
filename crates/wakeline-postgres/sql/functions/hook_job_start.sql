-- Creates a job, unless it exists. Returns its id; NULL if the application does not exist. Lock
-- order: the application, the job.

CREATE OR REPLACE FUNCTION @schema@.hook_job_start(
    p_app uuid, p_app_uid text, p_job uuid, p_kind smallint, p_endpoint uuid, p_types text[],
    p_since timestamptz, p_until timestamptz, p_states smallint[])
RETURNS uuid
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_now timestamptz := @schema@.clock();
    v_app uuid;
BEGIN
    SELECT a.application_id INTO v_app FROM @schema@.hook_applications a
    WHERE a.application_id = @schema@.hook_application_find(p_app, p_app_uid)
        AND a.deleted_at IS NULL
    FOR KEY SHARE;
    IF v_app IS NULL THEN
        RETURN NULL;
    END IF;
    INSERT INTO @schema@.hook_jobs (job_id, application_id, kind, endpoint_id, event_types, since,
        until, states, place_message, created_at, updated_at)
    VALUES (p_job, v_app, p_kind, p_endpoint, p_types, p_since, p_until, p_states,
        @schema@.hook_job_from(v_app, p_since), v_now, v_now)
    ON CONFLICT DO NOTHING;
    RETURN p_job;
END
$$;
