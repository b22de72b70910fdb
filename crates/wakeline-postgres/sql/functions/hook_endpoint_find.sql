-- Returns the endpoint of an application that a request names; NULL if it does not exist. Reads
-- only.

CREATE OR REPLACE FUNCTION @schema@.hook_endpoint_find(
    p_app uuid, p_app_uid text, p_id uuid, p_uid text)
RETURNS uuid
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_app uuid := @schema@.hook_application_find(p_app, p_app_uid);
BEGIN
    IF p_id IS NULL THEN
        RETURN (SELECT e.endpoint_id FROM @schema@.hook_endpoints e
            WHERE e.application_id = v_app AND e.uid = p_uid AND e.deleted_at IS NULL);
    END IF;
    RETURN (SELECT e.endpoint_id FROM @schema@.hook_endpoints e
        WHERE e.endpoint_id = p_id AND e.application_id = v_app AND e.deleted_at IS NULL);
END
$$;
