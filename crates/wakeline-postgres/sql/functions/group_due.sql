-- Returns when a group has something to read in one of its partitions, or in the one that is named.
-- The cursors' due_at may be early: due ones and those of queues with a window are checked more
-- closely, up to 20 of them. Reads only.

CREATE OR REPLACE FUNCTION @schema@.group_due(
    p_group integer, p_partition bigint, p_now timestamptz)
RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_cursors refcursor;
    c @schema@.cursors;
    p record;
    v_due timestamptz;
    v_least timestamptz;
BEGIN
    IF p_partition IS NULL THEN
        OPEN v_cursors FOR SELECT k.* FROM @schema@.cursors k
            WHERE k.group_id = p_group AND k.due_at IS NOT NULL
            ORDER BY k.due_at;
    ELSE
        OPEN v_cursors FOR SELECT k.* FROM @schema@.cursors k
            WHERE k.partition_id = p_partition AND k.group_id = p_group AND k.due_at IS NOT NULL;
    END IF;
    FOR v_looked IN 0 .. 20 LOOP
        FETCH v_cursors INTO c;
        EXIT WHEN NOT FOUND OR c.due_at >= v_least;
        IF v_looked = 20 THEN
            RETURN c.due_at;
        ELSIF c.lease_token IS NOT NULL THEN
            v_due := c.lease_until;
        ELSE
            SELECT x.next_offset, x.last_push_at, q.strict_order, q.delay_secs, q.window_secs,
                q.ttl_secs INTO p
            FROM @schema@.partitions x JOIN @schema@.queues q ON q.queue_id = x.queue_id
            WHERE x.partition_id = c.partition_id;
            v_due := c.due_at;
            IF c.due_at <= p_now OR p.window_secs > 0 THEN
                v_due := @schema@.cursor_due(c.partition_id, c.group_id, c.next_offset, c.parked,
                    p.next_offset, p.last_push_at, p.strict_order, p.delay_secs, p.window_secs,
                    p.ttl_secs);
            END IF;
        END IF;
        v_least := least(v_least, v_due);
        EXIT WHEN v_least <= p_now;
    END LOOP;
    CLOSE v_cursors;
    RETURN v_least;
END
$$;
