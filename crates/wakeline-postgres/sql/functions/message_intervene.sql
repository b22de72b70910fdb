-- Retries a message of a group now, or gives it up (p_bury). Returns one row: the outcome, and when
-- the cursor has something, if it had no lease. o_outcome: 0 done, 1 no such message, 2 the group
-- does not read the queue, 3 a consumer holds it, 4 the group has completed it, 5 the group has
-- more than p_distance messages to read before it. A message that is given up unread is skipped:
-- those before it are parked, due now. Lock order: the cursor; then tries queues and partitions.

CREATE OR REPLACE FUNCTION @schema@.message_intervene(
    p_partition bigint, p_txn text, p_group text, p_bury boolean, p_error text, p_distance bigint)
RETURNS TABLE (
    outcome smallint, queue text, partition text, namespace text, task text, due_us bigint)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v_offset bigint;
    v_due timestamptz;
    v_free boolean;
    c @schema@.cursors;
    r @schema@.retries;
BEGIN
    SELECT q.name, p.name, q.namespace, q.task INTO queue, partition, namespace, task
    FROM @schema@.partitions p JOIN @schema@.queues q ON q.queue_id = p.queue_id
    WHERE p.partition_id = p_partition;
    SELECT k.* INTO c FROM @schema@.partitions p
    JOIN @schema@.groups g ON g.queue_id = p.queue_id AND g.name = p_group
    JOIN @schema@.cursors k ON k.partition_id = p.partition_id AND k.group_id = g.group_id
    WHERE p.partition_id = p_partition FOR NO KEY UPDATE OF k;
    -- Under the cursor's lock it cannot be deleted any more.
    SELECT s.first_offset + t.n - 1 INTO v_offset
    FROM @schema@.partitions p
    JOIN @schema@.queues q ON q.queue_id = p.queue_id
    CROSS JOIN LATERAL (
        SELECT g.first_offset, g.txn_ids FROM @schema@.segments g
        WHERE g.partition_id = p.partition_id AND g.txn_ids @> ARRAY[p_txn]
        ORDER BY g.first_offset DESC LIMIT 1) s
    CROSS JOIN LATERAL (
        SELECT x.n FROM unnest(s.txn_ids) WITH ORDINALITY AS x (txn, n)
        WHERE x.txn = p_txn ORDER BY x.n DESC LIMIT 1) t
    WHERE p.partition_id = p_partition;
    IF v_offset IS NULL THEN
        outcome := 1;
        RETURN NEXT;
        RETURN;
    END IF;
    IF c.partition_id IS NULL THEN
        outcome := 2;
        RETURN NEXT;
        RETURN;
    END IF;
    v_now := @schema@.clock();
    v_free := c.lease_token IS NULL;
    SELECT x.* INTO r FROM @schema@.retries x WHERE x.partition_id = p_partition
        AND x.group_id = c.group_id AND x.message_offset = v_offset;
    outcome := CASE
        WHEN c.lease_set @> v_offset AND c.lease_until > v_now THEN 3
        WHEN NOT p_bury OR coalesce(c.lease_set @> v_offset, false)
            OR r.message_offset IS NOT NULL THEN 0
        WHEN v_offset < c.next_offset THEN 4
        WHEN v_offset - c.next_offset
            - @schema@.gap_len(c.gaps, c.next_offset, v_offset) > p_distance THEN 5
        ELSE 0 END;
    IF outcome <> 0 THEN
        RETURN NEXT;
        RETURN;
    END IF;
    IF p_bury THEN
        IF v_offset >= c.next_offset THEN
            c.parked := c.parked + @schema@.message_park(p_partition, c.group_id,
                int8multirange(int8range(c.next_offset, v_offset)) - coalesce(c.gaps, '{}'),
                v_now, 0, false, NULL);
            c.next_offset := @schema@.gap_end(c.gaps, v_offset + 1);
            c.gaps := nullif(c.gaps * int8multirange(int8range(c.next_offset, NULL)), '{}');
        END IF;
        PERFORM @schema@.dead_letter_add(p_partition, c.group_id, ARRAY[v_offset],
            ARRAY[coalesce(r.failures, 0)], ARRAY[coalesce(p_error, r.error)], v_now);
        IF r.message_offset IS NOT NULL THEN
            DELETE FROM @schema@.retries x WHERE x.partition_id = p_partition
                AND x.group_id = c.group_id AND x.message_offset = v_offset;
            c.parked := c.parked - 1;
        END IF;
        -- From a lease that has expired: a live one was left alone.
        IF c.lease_set @> v_offset THEN
            c.lease_all := coalesce(c.lease_all, c.lease_set);
            c.lease_expired := coalesce(c.lease_expired, '{}')
                + int8multirange(int8range(v_offset, v_offset + 1));
            c.lease_set := c.lease_set - int8multirange(int8range(v_offset, v_offset + 1));
        END IF;
    ELSIF r.message_offset IS NOT NULL AND NOT coalesce(c.lease_set @> v_offset, false) THEN
        UPDATE @schema@.retries x SET due_at = least(x.due_at, v_now)
        WHERE x.partition_id = p_partition AND x.group_id = c.group_id
            AND x.message_offset = v_offset;
    ELSIF r.message_offset IS NULL AND v_offset < c.next_offset
        AND NOT coalesce(c.lease_set @> v_offset, false)
    THEN
        c.parked := c.parked + @schema@.message_park(p_partition, c.group_id,
            int8multirange(int8range(v_offset, v_offset + 1)), v_now, 0, false, NULL);
        DELETE FROM @schema@.dead_letters d WHERE d.partition_id = p_partition
            AND d.message_offset = v_offset AND d.group_name = p_group;
    END IF;
    IF c.lease_token IS NOT NULL AND c.lease_set <> '{}' THEN
        UPDATE @schema@.cursors k SET next_offset = c.next_offset, parked = c.parked, gaps = c.gaps,
            lease_set = c.lease_set, lease_all = c.lease_all, lease_expired = c.lease_expired
        WHERE k.partition_id = p_partition AND k.group_id = c.group_id;
    ELSE
        IF c.lease_token IS NOT NULL THEN
            PERFORM @schema@.ledger_write(p_partition, c.group_id, NULL, NULL,
                int8multirange(int8range(v_offset, v_offset + 1)), c.lease_until);
        END IF;
        SELECT e.due_at INTO v_due FROM @schema@.lease_end(ARRAY[p_partition],
            ARRAY[c.group_id], ARRAY[c.next_offset], ARRAY[c.parked], v_now) e;
    END IF;
    IF v_free AND v_due IS NOT NULL THEN
        due_us := greatest(ceil(extract(epoch FROM v_due - v_now) * 1000000), 0);
    END IF;
    RETURN NEXT;
END
$$;
