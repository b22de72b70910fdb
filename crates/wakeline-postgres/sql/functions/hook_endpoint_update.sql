-- Changes an endpoint, if its version is p_expected (NULL: in any case). Properties that are NULL
-- stay unchanged (p_set_uid: its own id changes, perhaps to none). code: 0 done, 1 it does not
-- exist, 2 its own id exists, 3 it has changed since; and the microseconds until something of it
-- may be due. p_numbers: see hook_endpoint_create. Lock order: the endpoint FOR UPDATE, so that no
-- emit to it is in progress, its deliveries, its state.

CREATE OR REPLACE FUNCTION @schema@.hook_endpoint_update(
    p_app uuid, p_app_uid text, p_id uuid, p_own text, p_set_uid boolean, p_uid text, p_url text,
    p_description text, p_event_types text[], p_channels text[], p_disabled boolean,
    p_metadata bytea, p_headers bytea, p_options text, p_pull boolean, p_numbers bigint[],
    p_expected bigint)
RETURNS TABLE (code smallint, endpoint_id uuid, pull boolean, due_us bigint)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v_due timestamptz;
    e record;
BEGIN
    SELECT k.* INTO e FROM @schema@.hook_endpoints k
    WHERE k.endpoint_id = @schema@.hook_endpoint_find(p_app, p_app_uid, p_id, p_own)
        AND k.deleted_at IS NULL
    FOR UPDATE;
    IF NOT FOUND THEN
        code := 1; RETURN NEXT; RETURN;
    END IF;
    endpoint_id := e.endpoint_id;
    IF e.version <> p_expected THEN
        code := 3; RETURN NEXT; RETURN;
    END IF;
    IF p_set_uid AND EXISTS (SELECT FROM @schema@.hook_endpoints k
        WHERE k.application_id = e.application_id AND k.uid = p_uid AND k.deleted_at IS NULL
            AND k.endpoint_id <> e.endpoint_id)
    THEN
        code := 2; RETURN NEXT; RETURN;
    END IF;
    v_now := @schema@.clock();
    UPDATE @schema@.hook_endpoints k SET
        uid = CASE WHEN p_set_uid THEN p_uid ELSE k.uid END,
        url = coalesce(p_url, k.url), description = coalesce(p_description, k.description),
        event_types = coalesce(p_event_types, k.event_types),
        channels = coalesce(p_channels, k.channels), metadata = coalesce(p_metadata, k.metadata),
        headers = coalesce(p_headers, k.headers), version = k.version + 1, updated_at = v_now
    WHERE k.endpoint_id = e.endpoint_id;
    IF p_event_types IS NOT NULL THEN
        DELETE FROM @schema@.hook_filters f WHERE f.application_id = e.application_id
            AND f.endpoint_id = e.endpoint_id AND f.pattern = ANY (
                CASE WHEN e.event_types = '{}' THEN ARRAY['*'] ELSE e.event_types END);
        INSERT INTO @schema@.hook_filters (application_id, pattern, endpoint_id)
        SELECT DISTINCT e.application_id, x.pattern, e.endpoint_id
        FROM unnest(CASE WHEN p_event_types = '{}' THEN ARRAY['*'] ELSE p_event_types END)
            AS x (pattern);
    END IF;
    IF p_options IS NOT NULL THEN
        UPDATE @schema@.hook_endpoints k SET options = p_options, pull = p_pull,
            fifo_batch = p_numbers[1], rate = p_numbers[2], in_flight_max = p_numbers[3],
            breaker_failures = p_numbers[4], breaker_open_us = p_numbers[5],
            breaker_probes = p_numbers[6], disable_after_us = p_numbers[7],
            attempts_max = p_numbers[8], lease_us = p_numbers[9]
        WHERE k.endpoint_id = e.endpoint_id;
        IF (e.fifo_batch IS NULL) <> (p_numbers[1] IS NULL) THEN
            PERFORM FROM @schema@.hook_deliveries d
            WHERE d.endpoint_id = e.endpoint_id AND d.state IN (0, 1)
            ORDER BY d.delivery_id FOR NO KEY UPDATE;
            UPDATE @schema@.hook_deliveries d SET fifo = p_numbers[1] IS NOT NULL
            WHERE d.endpoint_id = e.endpoint_id AND d.state IN (0, 1);
        END IF;
    END IF;
    UPDATE @schema@.hook_states s SET pull = coalesce(p_pull, s.pull),
        failing_since = CASE WHEN p_disabled OR p_disabled IS NULL OR s.disabled IS NULL
            THEN s.failing_since END,
        failures = CASE WHEN p_disabled OR p_disabled IS NULL OR s.disabled IS NULL
            THEN s.failures ELSE 0 END,
        open_until = CASE WHEN p_disabled OR p_disabled IS NULL OR s.disabled IS NULL
            THEN s.open_until END,
        successes = CASE WHEN p_disabled OR p_disabled IS NULL OR s.disabled IS NULL
            THEN s.successes ELSE 0 END,
        disabled = CASE p_disabled WHEN true THEN coalesce(s.disabled, 1) WHEN false THEN NULL
            ELSE s.disabled END
    WHERE s.endpoint_id = e.endpoint_id;
    v_due := @schema@.hook_endpoint_wake(e.endpoint_id, v_now);
    code := 0;
    SELECT s.pull, CASE WHEN s.disabled IS NULL
        THEN @schema@.hook_until(v_due, v_now) END
    INTO pull, due_us FROM @schema@.hook_states s WHERE s.endpoint_id = e.endpoint_id;
    RETURN NEXT;
END
$$;
