-- Returns those of some deliveries that can be sent again, as far as their payloads and endpoints
-- are concerned. One index probe per row, even if the plan was made on small tables (OFFSET 0: in
-- this order). Reads only.

CREATE OR REPLACE FUNCTION @schema@.hook_sendable(p_ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT x.id FROM unnest(p_ids) AS x (id)
        CROSS JOIN LATERAL (
            SELECT d.endpoint_id, d.message_id FROM @schema@.hook_deliveries d
            WHERE d.delivery_id = x.id OFFSET 0) d
        CROSS JOIN LATERAL (
            SELECT e.application_id FROM @schema@.hook_endpoints e
            WHERE e.endpoint_id = d.endpoint_id AND e.deleted_at IS NULL OFFSET 0) e
        CROSS JOIN LATERAL (
            SELECT FROM @schema@.hook_states s
            WHERE s.endpoint_id = d.endpoint_id AND s.disabled IS NULL OFFSET 0) s
        CROSS JOIN LATERAL (
            SELECT FROM @schema@.hook_messages m
            WHERE m.application_id = e.application_id AND m.message_id = d.message_id
                AND m.payload IS NOT NULL OFFSET 0) m);
END
$$;
