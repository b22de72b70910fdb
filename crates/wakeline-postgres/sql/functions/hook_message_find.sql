-- Returns the message of an application that a request names, and the application; no row if it
-- does not exist. Reads only.

CREATE OR REPLACE FUNCTION @schema@.hook_message_find(
    p_app uuid, p_app_uid text, p_id uuid, p_event_id text)
RETURNS TABLE (application_id uuid, message_id uuid)
LANGUAGE plpgsql STABLE ROWS 1 AS $$
#variable_conflict use_column
DECLARE
    v_app uuid := @schema@.hook_application_find(p_app, p_app_uid);
BEGIN
    IF p_id IS NULL THEN
        RETURN QUERY SELECT m.application_id, m.message_id FROM @schema@.hook_messages m
            WHERE m.application_id = v_app AND m.event_id = p_event_id;
    ELSE
        RETURN QUERY SELECT m.application_id, m.message_id FROM @schema@.hook_messages m
            WHERE m.application_id = v_app AND m.message_id = p_id;
    END IF;
END
$$;
