-- Creates an event type or, unless p_create, replaces one; with p_expected it only replaces one
-- that was last changed at that time. code: 0 done, 1 an earlier identical request created it, 2 it
-- exists, 3 another request used its idempotency key, 4 it does not exist, 5 it has changed since;
-- and its name. Lock order: the key, the type.

CREATE OR REPLACE FUNCTION @schema@.hook_event_type_put(
    p_create boolean, p_name text, p_description text, p_schemas bytea, p_enforced boolean,
    p_archived boolean, p_deprecated boolean, p_feature_flag text, p_group_name text,
    p_key text, p_print bytea, p_expected timestamptz)
RETURNS TABLE (code smallint, name text)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := @schema@.clock();
    v_none uuid := '00000000-0000-0000-0000-000000000000';
    v_made text := @schema@.hook_key(1::smallint, v_none, p_key, p_print, p_name, v_now);
BEGIN
    name := p_name;
    IF p_expected IS NOT NULL THEN
        UPDATE @schema@.hook_event_types t SET description = p_description, schemas = p_schemas,
            enforced = p_enforced, archived = p_archived, deprecated = p_deprecated,
            feature_flag = p_feature_flag, group_name = p_group_name, updated_at = v_now
        WHERE t.name = p_name AND t.updated_at = p_expected;
        code := CASE WHEN FOUND THEN 0
            WHEN EXISTS (SELECT FROM @schema@.hook_event_types t WHERE t.name = p_name) THEN 5
            ELSE 4 END;
        RETURN NEXT; RETURN;
    END IF;
    IF v_made = '' THEN
        code := 3; RETURN NEXT; RETURN;
    ELSIF v_made IS NOT NULL THEN
        IF EXISTS (SELECT FROM @schema@.hook_event_types t WHERE t.name = v_made) THEN
            code := 1; name := v_made; RETURN NEXT; RETURN;
        END IF;
        PERFORM @schema@.hook_key_set(1::smallint, v_none, p_key, p_name, v_now);
    END IF;
    INSERT INTO @schema@.hook_event_types AS t (name, description, schemas, enforced, archived,
        deprecated, feature_flag, group_name, created_at, updated_at)
    VALUES (p_name, p_description, p_schemas, p_enforced, p_archived, p_deprecated, p_feature_flag,
        p_group_name, v_now, v_now)
    ON CONFLICT (name) DO UPDATE SET description = excluded.description,
        schemas = excluded.schemas, enforced = excluded.enforced, archived = excluded.archived,
        deprecated = excluded.deprecated, feature_flag = excluded.feature_flag,
        group_name = excluded.group_name, updated_at = excluded.updated_at
    WHERE NOT p_create;
    code := 0;
    IF NOT FOUND THEN
        PERFORM @schema@.hook_key_set(1::smallint, v_none, p_key, NULL, v_now);
        code := 2;
    END IF;
    RETURN NEXT;
END
$$;
