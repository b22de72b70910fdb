-- Returns the application that a request names, by the server's id or by the user's own id; NULL if
-- it does not exist. Reads only.

CREATE OR REPLACE FUNCTION @schema@.hook_application_find(p_id uuid, p_uid text) RETURNS uuid
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_id IS NULL THEN
        RETURN (SELECT a.application_id FROM @schema@.hook_applications a
            WHERE a.uid = p_uid AND a.deleted_at IS NULL);
    END IF;
    RETURN (SELECT a.application_id FROM @schema@.hook_applications a
        WHERE a.application_id = p_id AND a.deleted_at IS NULL);
END
$$;
