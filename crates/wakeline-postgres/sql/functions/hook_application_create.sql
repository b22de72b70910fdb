-- Creates an application. code: 0 created, 1 an earlier identical request created it, 2 its own id
-- exists, 3 another request used its idempotency key; and the application in question. Lock order:
-- the key, the application.

CREATE OR REPLACE FUNCTION @schema@.hook_application_create(
    p_id uuid, p_uid text, p_name text, p_rate bigint, p_metadata bytea, p_key text, p_print bytea)
RETURNS TABLE (code smallint, application_id uuid)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := @schema@.clock();
    v_none uuid := '00000000-0000-0000-0000-000000000000';
    v_made text := @schema@.hook_key(0::smallint, v_none, p_key, p_print, p_id::text, v_now);
BEGIN
    application_id := p_id;
    IF v_made = '' THEN
        code := 3; RETURN NEXT; RETURN;
    ELSIF v_made IS NOT NULL THEN
        application_id := @schema@.hook_application_find(v_made::uuid, NULL);
        IF application_id IS NOT NULL THEN
            code := 1; RETURN NEXT; RETURN;
        END IF;
        application_id := p_id;
        PERFORM @schema@.hook_key_set(0::smallint, v_none, p_key, p_id::text, v_now);
    END IF;
    INSERT INTO @schema@.hook_applications AS a
        (application_id, uid, name, rate_limit, metadata, created_at, updated_at)
    VALUES (p_id, p_uid, p_name, p_rate, p_metadata, v_now, v_now)
    ON CONFLICT DO NOTHING;
    code := 0;
    IF NOT FOUND THEN
        PERFORM @schema@.hook_key_set(0::smallint, v_none, p_key, NULL, v_now);
        code := 1;
        IF @schema@.hook_application_find(p_id, NULL) IS NULL THEN
            code := 2;
            application_id := @schema@.hook_application_find(NULL, p_uid);
        END IF;
    END IF;
    RETURN NEXT;
END
$$;
