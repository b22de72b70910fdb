-- Finds the applications of messages that are about to be stored, creates missing ones if
-- requested, and checks what makes repeating the messages safe: their idempotency keys. Keys of new
-- requests are recorded. o_codes: 0 continue, 1 a request with the same key stored o_same, 3
-- another request used the key, 4 the application does not exist. Lock order: applications by id,
-- then new ones by name, then keys in their order.

CREATE OR REPLACE FUNCTION @schema@.hook_emit_check(
    p_ids uuid[], p_apps uuid[], p_app_uids text[], p_keys text[], p_prints bytea[],
    p_new_ids uuid[], p_new_uids text[], p_new_names text[], p_new_rates bigint[],
    p_new_metadata bytea[],
    OUT o_apps uuid[], OUT o_codes smallint[], OUT o_same uuid[])
LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz;
    v_live uuid[];
    v_mine integer[];
    v_app uuid;
    n record;
BEGIN
    o_same := array_fill(NULL::uuid, ARRAY[cardinality(p_ids)]);
    -- Most calls have messages of only one application.
    IF p_apps[1] = ALL (p_apps) THEN
        SELECT ARRAY[a.application_id] INTO v_live FROM @schema@.hook_applications a
        WHERE a.application_id = p_apps[1] AND a.deleted_at IS NULL FOR KEY SHARE;
        o_apps := array_fill(v_live[1], ARRAY[cardinality(p_ids)]);
    ELSIF p_app_uids[1] = ALL (p_app_uids) THEN
        SELECT ARRAY[a.application_id] INTO v_live FROM @schema@.hook_applications a
        WHERE a.uid = p_app_uids[1] AND a.deleted_at IS NULL FOR KEY SHARE;
        o_apps := array_fill(v_live[1], ARRAY[cardinality(p_ids)]);
    ELSE
        SELECT array_agg(a.application_id ORDER BY x.ord) INTO o_apps
        FROM unnest(p_apps, p_app_uids) WITH ORDINALITY AS x (id, uid, ord)
        LEFT JOIN LATERAL (
            SELECT a.application_id FROM @schema@.hook_applications a
            WHERE a.application_id = x.id AND a.deleted_at IS NULL
            UNION ALL
            SELECT a.application_id FROM @schema@.hook_applications a
            WHERE a.uid = x.uid AND a.deleted_at IS NULL) a ON true;
        SELECT array_agg(k.application_id) INTO v_live FROM (
            SELECT a.application_id FROM @schema@.hook_applications a
            WHERE a.application_id = ANY (o_apps) AND a.deleted_at IS NULL
            ORDER BY a.application_id FOR KEY SHARE) k;
    END IF;
    IF array_remove(p_new_ids, NULL) <> '{}' THEN
        v_now := @schema@.clock();
        FOR n IN
            SELECT x.ord, x.id, x.uid, p_new_names[x.ord] AS name, p_new_rates[x.ord] AS rate,
                p_new_metadata[x.ord] AS metadata
            FROM unnest(o_apps, p_new_ids, p_new_uids) WITH ORDINALITY AS x (app, id, uid, ord)
            WHERE x.id IS NOT NULL AND (x.app IS NULL OR (x.app = ANY (v_live)) IS NOT TRUE)
            ORDER BY x.uid, x.ord
        LOOP
            INSERT INTO @schema@.hook_applications
                (application_id, uid, name, rate_limit, metadata, created_at, updated_at)
            VALUES (n.id, n.uid, n.name, n.rate, n.metadata, v_now, v_now)
            ON CONFLICT DO NOTHING;
            SELECT a.application_id INTO v_app FROM @schema@.hook_applications a
            WHERE (a.uid = n.uid OR n.uid IS NULL AND a.application_id = n.id)
                AND a.deleted_at IS NULL
            FOR KEY SHARE;
            o_apps[n.ord] := v_app;
            v_live := v_live || v_app;
        END LOOP;
    END IF;
    IF o_apps <@ v_live THEN
        o_codes := array_fill(0::smallint, ARRAY[cardinality(o_apps)]);
    ELSE
        SELECT array_agg(CASE WHEN x.app = ANY (v_live) THEN 0 ELSE 4 END ORDER BY x.ord)
        INTO o_codes FROM unnest(o_apps) WITH ORDINALITY AS x (app, ord);
    END IF;
    IF array_remove(p_keys, NULL) = '{}' THEN
        RETURN;
    END IF;
    v_now := @schema@.clock();
    WITH fresh AS (
        INSERT INTO @schema@.hook_keys AS k
            (kind, application_id, key, print, made, expires_at)
        SELECT 3, x.app, x.key, x.print, x.id::text, v_now + interval '12 hours'
        FROM unnest(o_apps, p_keys, p_prints, p_ids, o_codes) AS x (app, key, print, id, code)
        WHERE x.key IS NOT NULL AND x.code = 0
        ORDER BY x.app, x.key
        ON CONFLICT (kind, application_id, key) DO UPDATE SET
            print = excluded.print, made = excluded.made, expires_at = excluded.expires_at
        WHERE k.expires_at <= v_now
        RETURNING k.made
    )
    SELECT array_agg(x.ord) INTO v_mine
    FROM fresh f JOIN unnest(p_ids) WITH ORDINALITY AS x (id, ord) ON x.id::text = f.made;
    FOR n IN
        SELECT x.ord, x.app, x.key, x.id, k.print = x.print AS same, m.message_id
        FROM unnest(o_apps, p_keys, p_prints, p_ids, o_codes) WITH ORDINALITY
            AS x (app, key, print, id, code, ord)
        JOIN @schema@.hook_keys k
            ON k.kind = 3 AND k.application_id = x.app AND k.key = x.key
        LEFT JOIN @schema@.hook_messages m
            ON m.application_id = x.app AND m.message_id = k.made::uuid
        WHERE x.key IS NOT NULL AND x.code = 0 AND (x.ord = ANY (v_mine)) IS NOT TRUE
    LOOP
        IF NOT n.same THEN
            o_codes[n.ord] := 3;
        ELSIF n.message_id IS NOT NULL THEN
            o_codes[n.ord] := 1; o_same[n.ord] := n.message_id;
        ELSE
            UPDATE @schema@.hook_keys k SET made = n.id::text,
                expires_at = v_now + interval '12 hours'
            WHERE k.kind = 3 AND k.application_id = n.app AND k.key = n.key;
        END IF;
    END LOOP;
END
$$;
