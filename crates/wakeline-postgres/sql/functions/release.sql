-- Releases the unsettled messages of live leases without counting a failure: messages from the log
-- that end at the cursor's next offset move that back, the others are parked, available at once.
-- Returns the cursors that have something left, and when that can be taken. Lock order: cursors by
-- (partition, group); then tries queues and partitions.

CREATE OR REPLACE FUNCTION @schema@.release(
    p_partitions bigint[], p_groups integer[], p_tokens uuid[])
RETURNS TABLE (
    queue text, partition text, namespace text, task text, group_name text, due_us bigint)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    c record;
    v_log int8multirange;
    v_tail int8range;
    x_partition bigint[] := '{}';
    x_group integer[] := '{}';
    x_next bigint[] := '{}';
    x_parked integer[] := '{}';
BEGIN
    FOR c IN
        SELECT k.* FROM (
            SELECT DISTINCT * FROM unnest(p_partitions, p_groups, p_tokens) AS u
        ) AS u (partition_id, group_id, token)
        JOIN @schema@.cursors k ON k.partition_id = u.partition_id AND k.group_id = u.group_id
            AND k.lease_token = u.token
        JOIN @schema@.groups g ON g.group_id = k.group_id
        ORDER BY k.partition_id, k.group_id
        FOR NO KEY UPDATE OF k
    LOOP
        v_now := @schema@.clock();
        CONTINUE WHEN c.lease_until <= v_now;
        PERFORM @schema@.ledger_write(
            c.partition_id, c.group_id, NULL, c.lease_set, NULL, v_now);
        v_log := c.lease_set * int8multirange(int8range(c.lease_start, c.next_offset));
        SELECT y INTO v_tail FROM unnest(v_log) AS y ORDER BY y DESC LIMIT 1;
        IF upper(v_tail) = c.next_offset THEN
            c.next_offset := lower(v_tail);
            c.lease_set := c.lease_set - int8multirange(v_tail);
        END IF;
        IF c.lease_set <> '{}' THEN
            c.parked := c.parked + @schema@.message_park(
                c.partition_id, c.group_id, c.lease_set, v_now, 0, false, NULL);
        END IF;
        x_partition := x_partition || c.partition_id; x_group := x_group || c.group_id;
        x_next := x_next || c.next_offset; x_parked := x_parked || c.parked;
    END LOOP;
    IF x_partition <> '{}' THEN
        RETURN QUERY
        SELECT q.name, p.name, q.namespace, q.task, g.name,
            ceil(extract(epoch FROM l.due_at - v_now) * 1000000)::bigint
        FROM @schema@.lease_end(x_partition, x_group, x_next, x_parked, v_now) l
        JOIN @schema@.partitions p ON p.partition_id = x_partition[l.ord]
        JOIN @schema@.queues q ON q.queue_id = p.queue_id
        JOIN @schema@.groups g ON g.group_id = x_group[l.ord]
        WHERE l.due_at IS NOT NULL
        ORDER BY l.ord;
    END IF;
END
$$;
