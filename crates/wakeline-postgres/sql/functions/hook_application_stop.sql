-- Stops endpoints of a deleted application, at most p_rows, in order: nothing is sent to them any
-- more, and leases of their deliveries end. Returns true if there are more. Lock order:
-- application, endpoints, deliveries, states, each by id.

CREATE OR REPLACE FUNCTION @schema@.hook_application_stop(p_app uuid, p_rows integer)
RETURNS boolean
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_now timestamptz := @schema@.clock();
    v_after uuid;
    v_ids uuid[];
BEGIN
    SELECT a.stop_after INTO v_after FROM @schema@.hook_applications a
    WHERE a.application_id = p_app AND a.stop_after IS NOT NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    v_ids := ARRAY(
        SELECT e.endpoint_id FROM @schema@.hook_endpoints e
        WHERE e.application_id = p_app AND e.endpoint_id > v_after
        ORDER BY e.endpoint_id LIMIT p_rows FOR UPDATE);
    UPDATE @schema@.hook_endpoints e SET deleted_at = coalesce(e.deleted_at, v_now)
    WHERE e.endpoint_id = ANY (v_ids);
    PERFORM FROM @schema@.hook_deliveries d WHERE d.endpoint_id = ANY (v_ids) AND d.state = 1
    ORDER BY d.delivery_id FOR NO KEY UPDATE;
    UPDATE @schema@.hook_deliveries d SET lease_key = NULL
    WHERE d.endpoint_id = ANY (v_ids) AND d.state = 1;
    PERFORM FROM @schema@.hook_states s WHERE s.endpoint_id = ANY (v_ids)
    ORDER BY s.endpoint_id FOR UPDATE;
    DELETE FROM @schema@.hook_states s WHERE s.endpoint_id = ANY (v_ids);
    UPDATE @schema@.hook_applications a SET
        stop_after = CASE WHEN cardinality(v_ids) >= p_rows THEN v_ids[p_rows] END
    WHERE a.application_id = p_app;
    RETURN cardinality(v_ids) >= p_rows;
END
$$;
