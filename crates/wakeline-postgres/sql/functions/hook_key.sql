-- Records a request by its idempotency key. NULL: it is new, and made is stored; '': another
-- request used the key; otherwise the id of what the same request created. p_kind: see hook_keys.
-- Lock order: the key's row.

CREATE OR REPLACE FUNCTION @schema@.hook_key(
    p_kind smallint, p_application uuid, p_key text, p_print bytea, p_made text, p_now timestamptz)
RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_made text;
    v_same boolean;
BEGIN
    IF p_key IS NULL THEN
        RETURN NULL;
    END IF;
    INSERT INTO @schema@.hook_keys AS k (kind, application_id, key, print, made, expires_at)
    VALUES (p_kind, p_application, p_key, p_print, p_made, p_now + interval '12 hours')
    ON CONFLICT (kind, application_id, key) DO UPDATE SET
        print = excluded.print, made = excluded.made, expires_at = excluded.expires_at
    WHERE k.expires_at <= p_now;
    IF FOUND THEN
        RETURN NULL;
    END IF;
    SELECT k.made, k.print = p_print INTO v_made, v_same FROM @schema@.hook_keys k
    WHERE k.kind = p_kind AND k.application_id = p_application AND k.key = p_key;
    RETURN CASE WHEN v_same THEN v_made ELSE '' END;
END
$$;
