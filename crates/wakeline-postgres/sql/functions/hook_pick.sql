-- Picks up to p_count deliveries of an endpoint that can be sent now, and one more as a sign that
-- there are more; locks them. p_general: how many of them may be other than first attempts. For an
-- ordered endpoint: the first open one if it is due, and those directly after it that are due and
-- were last attempted together with it, or, like it, never; nothing if another transaction has
-- locked it. Lock order: deliveries, without waiting; the caller holds the state.

CREATE OR REPLACE FUNCTION @schema@.hook_pick(
    p_endpoint uuid, p_fifo boolean, p_count integer, p_general integer, p_now timestamptz)
RETURNS TABLE (delivery_id bigint, fresh boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_ids bigint[];
BEGIN
    IF p_fifo THEN
        SELECT array_agg(h.delivery_id ORDER BY h.delivery_id) INTO v_ids FROM (
            SELECT d.delivery_id FROM @schema@.hook_deliveries d
            WHERE d.endpoint_id = p_endpoint AND d.fifo AND d.state < 2
            ORDER BY d.delivery_id LIMIT p_count) h;
        RETURN QUERY
        SELECT k.delivery_id, k.class IN (0, 3) FROM (
            SELECT k.*, count(*) FILTER (WHERE k.attempted_at IS DISTINCT FROM k.head_attempted_at)
                OVER (ORDER BY k.delivery_id) AS others
            FROM (
                SELECT k.*, row_number() OVER w AS n,
                    first_value(k.attempted_at) OVER w AS head_attempted_at
                FROM (
                    SELECT d.delivery_id, d.class, d.state, d.due_at, d.attempted_at
                    FROM @schema@.hook_deliveries d
                    WHERE d.delivery_id = ANY (v_ids)
                    FOR NO KEY UPDATE SKIP LOCKED) k
                WHERE k.state = 0 AND k.due_at <= p_now
                WINDOW w AS (ORDER BY k.delivery_id)) k) k
        WHERE k.delivery_id = v_ids[k.n] AND k.others = 0 ORDER BY k.delivery_id;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT k.delivery_id, k.class IN (0, 3) FROM (
        SELECT * FROM (
            SELECT d.delivery_id, d.class, d.due_at FROM @schema@.hook_deliveries d
            WHERE d.endpoint_id = p_endpoint AND d.state = 0 AND d.class = 0 AND d.due_at <= p_now
            ORDER BY d.due_at, d.delivery_id LIMIT p_count + 1 FOR NO KEY UPDATE SKIP LOCKED) c0
        UNION ALL SELECT * FROM (
            SELECT d.delivery_id, d.class, d.due_at FROM @schema@.hook_deliveries d
            WHERE d.endpoint_id = p_endpoint AND d.state = 0 AND d.class = 1 AND d.due_at <= p_now
            ORDER BY d.due_at, d.delivery_id LIMIT least(p_count + 1, p_general)
            FOR NO KEY UPDATE SKIP LOCKED) c1
        UNION ALL SELECT * FROM (
            SELECT d.delivery_id, d.class, d.due_at FROM @schema@.hook_deliveries d
            WHERE d.endpoint_id = p_endpoint AND d.state = 0 AND d.class = 2 AND d.due_at <= p_now
            ORDER BY d.due_at, d.delivery_id LIMIT least(p_count + 1, p_general)
            FOR NO KEY UPDATE SKIP LOCKED) c2
        UNION ALL SELECT * FROM (
            SELECT d.delivery_id, d.class, d.due_at FROM @schema@.hook_deliveries d
            WHERE d.endpoint_id = p_endpoint AND d.state = 0 AND d.class = 3 AND d.due_at <= p_now
            ORDER BY d.due_at, d.delivery_id LIMIT p_count + 1 FOR NO KEY UPDATE SKIP LOCKED) c3
    ) k
    ORDER BY k.class > 1, k.due_at, k.delivery_id;
END
$$;
