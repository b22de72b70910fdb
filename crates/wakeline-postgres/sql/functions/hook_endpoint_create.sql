-- Creates an endpoint. code: 0 created, 1 an earlier identical request created it, 2 its own id
-- exists, 3 another request used its idempotency key, 4 the application does not exist; and the
-- endpoint in question. p_numbers: the numbers that claims use, in the order of the table's columns
-- from fifo_batch on. Lock order: the application, the key, the endpoint.

CREATE OR REPLACE FUNCTION @schema@.hook_endpoint_create(
    p_app uuid, p_app_uid text, p_id uuid, p_uid text, p_url text, p_description text,
    p_event_types text[], p_channels text[], p_disabled smallint, p_metadata bytea,
    p_headers bytea, p_secret bytea, p_options text, p_pull boolean, p_numbers bigint[],
    p_key text, p_print bytea)
RETURNS TABLE (code smallint, endpoint_id uuid)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := @schema@.clock();
    v_app uuid;
    v_made text;
BEGIN
    endpoint_id := p_id;
    SELECT a.application_id INTO v_app FROM @schema@.hook_applications a
    WHERE a.application_id = @schema@.hook_application_find(p_app, p_app_uid)
        AND a.deleted_at IS NULL
    FOR KEY SHARE;
    IF v_app IS NULL THEN
        code := 4; RETURN NEXT; RETURN;
    END IF;
    v_made := @schema@.hook_key(2::smallint, v_app, p_key, p_print, p_id::text, v_now);
    IF v_made = '' THEN
        code := 3; RETURN NEXT; RETURN;
    ELSIF v_made IS NOT NULL THEN
        endpoint_id := @schema@.hook_endpoint_find(v_app, NULL, v_made::uuid, NULL);
        IF endpoint_id IS NOT NULL THEN
            code := 1; RETURN NEXT; RETURN;
        END IF;
        endpoint_id := p_id;
        PERFORM @schema@.hook_key_set(2::smallint, v_app, p_key, p_id::text, v_now);
    END IF;
    INSERT INTO @schema@.hook_endpoints (endpoint_id, application_id, uid, url, description,
        event_types, channels, metadata, headers, secrets, secret_ends, options, pull, fifo_batch,
        rate, in_flight_max, breaker_failures, breaker_open_us, breaker_probes, disable_after_us,
        attempts_max, lease_us, created_at, updated_at)
    VALUES (p_id, v_app, p_uid, p_url, p_description, p_event_types, p_channels, p_metadata,
        p_headers, ARRAY[p_secret], ARRAY[NULL::timestamptz], p_options, p_pull, p_numbers[1],
        p_numbers[2], p_numbers[3], p_numbers[4], p_numbers[5], p_numbers[6], p_numbers[7],
        p_numbers[8], p_numbers[9], v_now, v_now)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        PERFORM @schema@.hook_key_set(2::smallint, v_app, p_key, NULL, v_now);
        code := 1;
        IF @schema@.hook_endpoint_find(v_app, NULL, p_id, NULL) IS NULL THEN
            code := 2;
            endpoint_id := @schema@.hook_endpoint_find(v_app, NULL, NULL, p_uid);
        END IF;
        RETURN NEXT; RETURN;
    END IF;
    INSERT INTO @schema@.hook_states (endpoint_id, pull, disabled)
    VALUES (p_id, p_pull, p_disabled);
    INSERT INTO @schema@.hook_filters (application_id, pattern, endpoint_id)
    SELECT DISTINCT v_app, x.pattern, p_id
    FROM unnest(CASE WHEN p_event_types = '{}' THEN ARRAY['*'] ELSE p_event_types END)
        AS x (pattern);
    code := 0;
    RETURN NEXT;
END
$$;
