-- What a job looks at next, in the order of messages and endpoints: deliveries (kinds 0, 2, 3), or
-- messages that its endpoint may lack (kind 1, without deliveries).
-- Called by: hook_job_go. Reads only.

CREATE OR REPLACE FUNCTION @schema@.hook_job_ahead(p_job bigint, p_rows integer)
RETURNS TABLE (message_id uuid, endpoint_id uuid, delivery_id bigint)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    j record;
BEGIN
    SELECT k.* INTO j FROM @schema@.hook_jobs k WHERE k.job_no = p_job;
    IF j.kind = 1 THEN
        RETURN QUERY
        SELECT m.message_id, j.endpoint_id, NULL::bigint FROM @schema@.hook_messages m
        WHERE m.application_id = j.application_id AND j.endpoint_id IS NOT NULL
            AND (j.place_message IS NULL OR m.message_id > j.place_message)
            AND (j.event_types = '{}' OR m.event_type = ANY (j.event_types))
            AND (j.since IS NULL OR m.created_at >= j.since)
            AND (j.until IS NULL OR m.created_at < j.until)
        ORDER BY m.message_id LIMIT p_rows;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT m.message_id, d.endpoint_id, d.delivery_id
    FROM @schema@.hook_messages m
    JOIN @schema@.hook_endpoints e ON e.application_id = m.application_id
    JOIN @schema@.hook_deliveries d
        ON d.endpoint_id = e.endpoint_id AND d.message_id = m.message_id
    WHERE m.application_id = j.application_id
        AND (j.endpoint_id IS NULL OR e.endpoint_id = j.endpoint_id)
        AND (j.place_message IS NULL OR m.message_id >= j.place_message)
        AND (j.place_message IS NULL
            OR (m.message_id, d.endpoint_id) > (j.place_message, j.place_endpoint))
        AND (j.event_types = '{}' OR m.event_type = ANY (j.event_types))
        AND (j.since IS NULL OR m.created_at >= j.since)
        AND (j.until IS NULL OR m.created_at < j.until)
    ORDER BY m.message_id, d.endpoint_id LIMIT p_rows;
END
$$;
