-- Skips messages that a group must not get any more: messages older than ttl, and those that have
-- been available for longer than the group's limit. Returns the cursor's new position and the
-- number of its parked messages; the caller updates the cursor. Skipped messages are counted in
-- losses: each by the limit that it reached first. Runs under the lock of a cursor that has no
-- lease.

CREATE OR REPLACE FUNCTION @schema@.cursor_skip(
    p_partition bigint, p_group integer, p_next bigint, p_parked integer, p_gaps int8multirange,
    p_end bigint, p_queue @schema@.queues, p_now timestamptz,
    OUT o_next bigint, OUT o_parked integer)
LANGUAGE plpgsql AS $$
DECLARE
    v_ttl interval := CASE WHEN p_queue.ttl_secs > 0
        THEN make_interval(secs => p_queue.ttl_secs) END;
    v_wait interval := CASE WHEN p_queue.wait_secs_max > 0
        THEN make_interval(secs => p_queue.wait_secs_max) END;
    -- The same two limits, both counted from the push, for messages that were never delivered.
    v_log_wait interval := v_wait + make_interval(secs => p_queue.delay_secs);
    v_passed bigint;
    v_dead bigint;
    v_expired bigint := 0;
    v_evicted bigint := 0;
BEGIN
    o_parked := p_parked;
    o_next := @schema@.log_cut(p_partition, p_next, p_end, p_now - least(v_ttl, v_log_wait));
    v_passed := o_next - p_next;
    IF p_gaps IS NOT NULL THEN
        -- Deleted messages are not lost; p_end may be older than the gaps.
        v_passed := v_passed - @schema@.gap_len(p_gaps, p_next, o_next);
        o_next := @schema@.gap_end(p_gaps, o_next);
    END IF;
    IF v_ttl <= v_log_wait OR v_wait IS NULL THEN
        v_expired := v_passed;
    ELSE
        v_evicted := v_passed;
    END IF;
    IF p_parked > 0 THEN
        SELECT @schema@.log_cut(p_partition, r.message_offset, p_next, p_now - v_ttl) INTO v_dead
        FROM @schema@.retries r WHERE r.partition_id = p_partition AND r.group_id = p_group
        ORDER BY r.message_offset LIMIT 1;
        WITH gone AS (
            DELETE FROM @schema@.retries r
            WHERE r.partition_id = p_partition AND r.group_id = p_group
                AND (r.message_offset < v_dead OR r.due_at <= p_now - v_wait)
            RETURNING r.message_offset, r.due_at
        )
        SELECT v_expired + count(*) FILTER (WHERE NOT e.first),
            v_evicted + count(*) FILTER (WHERE e.first), o_parked - count(*)
        INTO v_expired, v_evicted, o_parked
        FROM gone g CROSS JOIN LATERAL (
            SELECT CASE WHEN g.message_offset >= v_dead THEN true
                ELSE coalesce(g.due_at + v_wait < v_ttl + (
                    SELECT s.created_at FROM @schema@.segments s
                    WHERE s.partition_id = p_partition AND s.first_offset <= g.message_offset
                    ORDER BY s.first_offset DESC LIMIT 1), false) END AS first
        ) e;
    END IF;
    IF v_expired > 0 OR v_evicted > 0 THEN
        INSERT INTO @schema@.losses (queue_id, expired, evicted)
        VALUES (p_queue.queue_id, v_expired, v_evicted);
    END IF;
END
$$;
