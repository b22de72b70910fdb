-- Ends an expired lease: counts a failure for each of its unsettled messages. Several messages are
-- parked to be delivered separately from now on; a single one may exceed its limit, and is counted
-- in losses if its queue keeps no dead letters. Returns the change in the number of the cursor's
-- rows in retries. The caller updates the cursor. Runs under the cursor's lock.

CREATE OR REPLACE FUNCTION @schema@.lease_expire(
    p_partition bigint, p_group integer, p_set int8multirange, p_queue @schema@.queues,
    p_now timestamptz)
RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    v_failures integer;
    v_offset bigint := lower(p_set);
BEGIN
    IF upper(p_set) - v_offset > 1 THEN
        RETURN @schema@.message_park(p_partition, p_group, p_set, p_now, 1, true, 'lease expired');
    END IF;
    SELECT r.failures INTO v_failures FROM @schema@.retries r
    WHERE r.partition_id = p_partition AND r.group_id = p_group AND r.message_offset = v_offset;
    IF coalesce(v_failures, 0) + 1 <= p_queue.retry_limit THEN
        RETURN @schema@.message_park(
            p_partition, p_group, p_set, p_now, 1, false, 'lease expired');
    END IF;
    IF p_queue.dead_letters THEN
        PERFORM @schema@.dead_letter_add(p_partition, p_group, ARRAY[v_offset],
            ARRAY[coalesce(v_failures, 0) + 1], ARRAY['lease expired'], p_now);
    ELSE
        INSERT INTO @schema@.losses (queue_id, expired, evicted, dropped)
        VALUES (p_queue.queue_id, 0, 0, 1);
    END IF;
    DELETE FROM @schema@.retries r WHERE r.partition_id = p_partition AND r.group_id = p_group
        AND r.message_offset = v_offset;
    RETURN CASE WHEN v_failures IS NULL THEN 0 ELSE -1 END;
END
$$;
