-- Replaces the current key of an endpoint; the old one stays valid for p_grace_us. code: 0 done, 1
-- the endpoint does not exist, 2 more than p_old_max old keys would still be valid. Lock order: the
-- endpoint.

CREATE OR REPLACE FUNCTION @schema@.hook_secret_rotate(
    p_app uuid, p_app_uid text, p_id uuid, p_own text, p_sealed bytea, p_grace_us bigint,
    p_old_max bigint)
RETURNS smallint
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_now timestamptz;
    e record;
    v_old bytea[];
    v_ends timestamptz[];
BEGIN
    SELECT k.endpoint_id, k.secrets, k.secret_ends INTO e FROM @schema@.hook_endpoints k
    WHERE k.endpoint_id = @schema@.hook_endpoint_find(p_app, p_app_uid, p_id, p_own)
        AND k.deleted_at IS NULL
    FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 1;
    END IF;
    v_now := @schema@.clock();
    SELECT array_agg(x.sealed ORDER BY x.ord), array_agg(x.until ORDER BY x.ord)
    INTO v_old, v_ends FROM (
        SELECT y.sealed, y.ord, coalesce(y.until, v_now + p_grace_us * interval '1 microsecond')
            AS until
        FROM unnest(e.secrets, e.secret_ends) WITH ORDINALITY AS y (sealed, until, ord)) x
    WHERE x.until > v_now;
    IF coalesce(cardinality(v_old), 0) > p_old_max THEN
        RETURN 2;
    END IF;
    UPDATE @schema@.hook_endpoints k SET secrets = ARRAY[p_sealed] || v_old,
        secret_ends = ARRAY[NULL::timestamptz] || v_ends
    WHERE k.endpoint_id = e.endpoint_id;
    RETURN 0;
END
$$;
