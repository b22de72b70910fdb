-- Replaces the properties of an application that its owner sets, if it was last changed at
-- p_expected (NULL: in any case). code: 0 done, 1 it does not exist, 2 its own id exists, 3 it has
-- changed since. Lock order: the application.

CREATE OR REPLACE FUNCTION @schema@.hook_application_update(
    p_app uuid, p_app_uid text, p_uid text, p_name text, p_rate bigint, p_metadata bytea,
    p_expected timestamptz)
RETURNS TABLE (code smallint, application_id uuid)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_app uuid := @schema@.hook_application_find(p_app, p_app_uid);
BEGIN
    code := 0; application_id := v_app;
    IF v_app IS NULL THEN
        code := 1;
    ELSIF p_expected IS NOT NULL AND NOT EXISTS (SELECT FROM @schema@.hook_applications a
        WHERE a.application_id = v_app AND a.updated_at = p_expected)
    THEN
        code := 3;
    ELSIF EXISTS (SELECT FROM @schema@.hook_applications a
        WHERE a.uid = p_uid AND a.deleted_at IS NULL AND a.application_id <> v_app)
    THEN
        code := 2;
    ELSE
        UPDATE @schema@.hook_applications a SET uid = p_uid, name = p_name, rate_limit = p_rate,
            metadata = p_metadata, updated_at = @schema@.clock()
        WHERE a.application_id = v_app AND a.deleted_at IS NULL
            AND (p_expected IS NULL OR a.updated_at = p_expected);
        IF NOT FOUND THEN
            code := CASE WHEN p_expected IS NULL THEN 1 ELSE 3 END;
        END IF;
    END IF;
    RETURN NEXT;
END
$$;
