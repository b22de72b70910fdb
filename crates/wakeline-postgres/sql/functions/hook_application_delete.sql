-- Removes an application for everybody who asks; rows go by chores. Leases of its deliveries end.
-- False if there is none.
-- Called by: HookCatalog::delete_application. Lock order: application, jobs and fan-outs (whoever is
-- at work on one waits for endpoints), endpoints, deliveries, states, each by id.

CREATE OR REPLACE FUNCTION @schema@.hook_application_delete(p_app uuid, p_app_uid text)
RETURNS boolean
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_app uuid := @schema@.hook_application_find(p_app, p_app_uid);
    v_now timestamptz := @schema@.clock();
    v_ids uuid[];
BEGIN
    UPDATE @schema@.hook_applications a SET deleted_at = v_now
    WHERE a.application_id = v_app AND a.deleted_at IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM @schema@.hook_jobs j WHERE j.application_id = v_app;
    DELETE FROM @schema@.hook_fan_outs f WHERE f.application_id = v_app;
    SELECT array_agg(k.endpoint_id) INTO v_ids FROM (
        SELECT e.endpoint_id FROM @schema@.hook_endpoints e WHERE e.application_id = v_app
        ORDER BY e.endpoint_id FOR UPDATE) k;
    UPDATE @schema@.hook_endpoints e SET deleted_at = coalesce(e.deleted_at, v_now)
    WHERE e.endpoint_id = ANY (v_ids);
    DELETE FROM @schema@.hook_filters f WHERE f.application_id = v_app;
    PERFORM FROM @schema@.hook_deliveries d WHERE d.endpoint_id = ANY (v_ids) AND d.state = 1
    ORDER BY d.delivery_id FOR NO KEY UPDATE;
    UPDATE @schema@.hook_deliveries d SET lease_key = NULL
    WHERE d.endpoint_id = ANY (v_ids) AND d.state = 1;
    PERFORM FROM @schema@.hook_states s WHERE s.endpoint_id = ANY (v_ids)
    ORDER BY s.endpoint_id FOR UPDATE;
    DELETE FROM @schema@.hook_states s WHERE s.endpoint_id = ANY (v_ids);
    RETURN true;
END
$$;
