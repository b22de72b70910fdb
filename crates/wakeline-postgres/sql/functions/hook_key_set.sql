-- Stores what a request created, or removes the request (p_made NULL). Lock order: the key's row.

CREATE OR REPLACE FUNCTION @schema@.hook_key_set(
    p_kind smallint, p_application uuid, p_key text, p_made text, p_now timestamptz)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_made IS NULL THEN
        DELETE FROM @schema@.hook_keys k
        WHERE k.kind = p_kind AND k.application_id = p_application AND k.key = p_key;
    ELSE
        UPDATE @schema@.hook_keys k SET made = p_made, expires_at = p_now + interval '12 hours'
        WHERE k.kind = p_kind AND k.application_id = p_application AND k.key = p_key;
    END IF;
END
$$;
