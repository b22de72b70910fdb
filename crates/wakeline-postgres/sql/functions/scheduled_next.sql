-- Returns when the first scheduled message of some queues is due, or of one partition if that is
-- named. Nothing is due while maintenance holds pushes. Reads only.

CREATE OR REPLACE FUNCTION @schema@.scheduled_next(p_queues integer[], p_partition bigint)
RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_next timestamptz;
BEGIN
    IF (SELECT m.pushes FROM @schema@.maintenance m WHERE m.one) > 0 THEN
        RETURN NULL;
    END IF;
    IF p_partition IS NOT NULL THEN
        SELECT s.deliver_at INTO v_next FROM @schema@.scheduled s
        WHERE s.partition_id = p_partition
        ORDER BY s.deliver_at, s.scheduled_id LIMIT 1;
        RETURN v_next;
    END IF;
    SELECT min(f.deliver_at) INTO v_next FROM unnest(p_queues) AS x (queue_id)
    CROSS JOIN LATERAL (
        SELECT s.deliver_at FROM @schema@.scheduled s WHERE s.queue_id = x.queue_id
        ORDER BY s.deliver_at, s.scheduled_id LIMIT 1) f;
    RETURN v_next;
END
$$;
