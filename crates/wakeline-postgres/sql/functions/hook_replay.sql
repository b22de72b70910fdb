-- Creates deliveries of some messages for an endpoint that subscribes to them and has none. Returns
-- them. Lock order: the endpoint (FOR NO KEY UPDATE, because of its order).

CREATE OR REPLACE FUNCTION @schema@.hook_replay(
    p_endpoint uuid, p_messages uuid[], p_now timestamptz)
RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    e record;
    v_made bigint[];
BEGIN
    SELECT k.application_id, k.event_types, k.channels, k.fifo_batch INTO e
    FROM @schema@.hook_endpoints k
    JOIN @schema@.hook_states s ON s.endpoint_id = k.endpoint_id
    WHERE k.endpoint_id = p_endpoint AND k.deleted_at IS NULL AND s.disabled IS NULL
    FOR NO KEY UPDATE OF k;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    WITH made AS (
        INSERT INTO @schema@.hook_deliveries (endpoint_id, message_id, state, class, fifo, due_at,
            created_at, updated_at)
        SELECT p_endpoint, m.message_id, 0, 3, e.fifo_batch IS NOT NULL, p_now, p_now, p_now
        FROM @schema@.hook_messages m
        WHERE m.application_id = e.application_id AND m.message_id = ANY (p_messages)
            AND m.payload IS NOT NULL
            AND (e.channels = '{}' OR e.channels && m.channels)
            AND (e.event_types = '{}' OR EXISTS (
                SELECT FROM unnest(e.event_types) AS w (pattern)
                WHERE w.pattern = m.event_type OR right(w.pattern, 1) = '*'
                    AND starts_with(m.event_type, left(w.pattern, -1))))
        ORDER BY m.message_id
        ON CONFLICT DO NOTHING
        RETURNING delivery_id
    )
    SELECT array_agg(m.delivery_id) INTO v_made FROM made m;
    RETURN v_made;
END
$$;
