-- When a group has something to read in one of its partitions, or in the one that is named. The
-- cursors' due_at may be early: those that are due, and those of queues with a window, are looked
-- at more closely, up to 20 of them.
-- Called by: sweep, claim_next_due. Reads only.

CREATE OR REPLACE FUNCTION @schema@.group_due(
    p_group integer, p_partition bigint, p_now timestamptz)
RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    c record;
    v_due timestamptz;
    v_least timestamptz;
    v_looked integer := 0;
BEGIN
    FOR c IN
        SELECT k.*, p.next_offset AS log_end, p.last_push_at, q.strict_order, q.delay_secs,
            q.window_secs
        FROM (
            (SELECT k.* FROM @schema@.cursors k
            WHERE p_partition IS NULL AND k.group_id = p_group AND k.due_at IS NOT NULL
            ORDER BY k.due_at LIMIT 22)
            UNION ALL
            SELECT k.* FROM @schema@.cursors k
            WHERE k.partition_id = p_partition AND k.group_id = p_group AND k.due_at IS NOT NULL
        ) k
        JOIN @schema@.partitions p ON p.partition_id = k.partition_id
        JOIN @schema@.queues q ON q.queue_id = p.queue_id
        ORDER BY k.due_at
    LOOP
        EXIT WHEN c.due_at >= v_least;
        IF v_looked > 20 THEN
            RETURN c.due_at;
        ELSIF c.lease_token IS NOT NULL THEN
            v_due := c.lease_until;
        ELSIF c.due_at > p_now AND c.window_secs = 0 THEN
            v_due := c.due_at;
        ELSE
            v_due := @schema@.cursor_due(c.partition_id, c.group_id, c.next_offset, c.parked,
                c.log_end, c.last_push_at, c.strict_order, c.delay_secs, c.window_secs);
        END IF;
        v_looked := v_looked + 1;
        v_least := least(v_least, v_due);
        EXIT WHEN v_least <= p_now;
    END LOOP;
    RETURN v_least;
END
$$;
