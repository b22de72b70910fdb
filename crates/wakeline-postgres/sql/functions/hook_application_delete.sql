-- Deletes an application for readers; its endpoints are stopped in batches (o_more: some are left),
-- and its rows are removed by background work. o_gone is false if it does not exist. Lock order:
-- application, jobs and fan-outs (a transaction that works on one waits for endpoints); then see
-- hook_application_stop.

CREATE OR REPLACE FUNCTION @schema@.hook_application_delete(
    p_app uuid, p_app_uid text, OUT o_gone boolean, OUT o_application uuid, OUT o_more boolean)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    o_application := @schema@.hook_application_find(p_app, p_app_uid); o_more := false;
    UPDATE @schema@.hook_applications a SET deleted_at = @schema@.clock(),
        stop_after = '00000000-0000-0000-0000-000000000000'
    WHERE a.application_id = o_application AND a.deleted_at IS NULL;
    o_gone := FOUND;
    IF o_gone THEN
        DELETE FROM @schema@.hook_jobs j WHERE j.application_id = o_application;
        DELETE FROM @schema@.hook_fan_outs f WHERE f.application_id = o_application;
        o_more := @schema@.hook_application_stop(o_application, 500);
    END IF;
END
$$;
