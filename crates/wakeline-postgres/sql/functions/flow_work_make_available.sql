-- Makes due work of a line available again: delayed work, and work whose lease has expired. Lock
-- order: work, without waiting.

CREATE OR REPLACE FUNCTION @schema@.flow_work_make_available(
    p_routes bigint[], p_owner text, p_now timestamptz)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE @schema@.flow_work w SET state = 0
    FROM (
        SELECT k.work_id FROM unnest(p_routes) AS t (route)
        CROSS JOIN LATERAL (
            SELECT k.work_id FROM @schema@.flow_work k
            WHERE k.route = t.route AND k.state = 1 AND k.session IS NULL AND k.due_at <= p_now
            ORDER BY k.due_at LIMIT 1000
            FOR NO KEY UPDATE SKIP LOCKED) k
    ) d
    WHERE w.work_id = d.work_id;
    IF p_owner IS NOT NULL THEN
        UPDATE @schema@.flow_work w SET state = 0
        FROM (
            SELECT k.work_id FROM unnest(p_routes) AS t (route)
            CROSS JOIN LATERAL (
                SELECT k.work_id FROM @schema@.flow_work k
                WHERE k.route = t.route AND k.state = 1 AND k.session IS NOT NULL
                    AND k.due_at <= p_now
                ORDER BY k.due_at LIMIT 1000
                FOR NO KEY UPDATE SKIP LOCKED) k
        ) d
        WHERE w.work_id = d.work_id;
    END IF;
END
$$;
