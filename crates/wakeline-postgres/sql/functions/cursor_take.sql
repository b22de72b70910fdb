-- Returns what can be taken now from a cursor that has no lease: the offsets, the position at which
-- the log continues, and the failures of the parked messages. Implements rules 3 to 5 of
-- docs/reference/queue.md. Gaps in the log are skipped and do not count. p_bytes: nothing more is
-- taken once this many bytes are reached. Runs under the cursor's lock. Reads only.

CREATE OR REPLACE FUNCTION @schema@.cursor_take(
    p_cursor @schema@.cursors, p_log_end bigint, p_last_push timestamptz, p_room integer,
    p_queue @schema@.queues, p_now timestamptz, p_bytes bigint,
    OUT o_set int8multirange, OUT o_next bigint, OUT o_retry_offsets bigint[],
    OUT o_retry_failures integer[], OUT o_bytes bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    r record;
    v_log boolean := true;
    v_reach bigint;
    v_end bigint;
    v_head timestamptz;
    v_delay interval := make_interval(secs => p_queue.delay_secs);
    v_window interval := make_interval(secs => p_queue.window_secs);
BEGIN
    o_set := '{}'; o_next := p_cursor.next_offset;
    o_retry_offsets := '{}'; o_retry_failures := '{}'; o_bytes := 0;
    IF p_cursor.parked > 0 AND p_queue.strict_order THEN
        FOR r IN SELECT t.message_offset, t.due_at, t.solo, t.failures FROM @schema@.retries t
            WHERE t.partition_id = p_cursor.partition_id AND t.group_id = p_cursor.group_id
            ORDER BY t.message_offset LIMIT p_room
        LOOP
            EXIT WHEN r.due_at > p_now OR (r.solo AND o_retry_offsets <> '{}')
                OR o_bytes >= p_bytes;
            o_retry_offsets := o_retry_offsets || r.message_offset;
            o_retry_failures := o_retry_failures || r.failures;
            o_bytes := o_bytes + (SELECT f.o_bytes FROM @schema@.log_read_end(
                p_cursor.partition_id, r.message_offset, r.message_offset + 1, p_bytes) f);
            v_log := NOT r.solo;
            EXIT WHEN r.solo;
        END LOOP;
        v_log := v_log AND cardinality(o_retry_offsets) = p_cursor.parked;
    ELSIF p_cursor.parked > 0 THEN
        FOR r IN SELECT t.message_offset, t.solo, t.failures FROM @schema@.retries t
            WHERE t.partition_id = p_cursor.partition_id AND t.group_id = p_cursor.group_id
                AND t.due_at <= p_now
            ORDER BY t.due_at, t.message_offset LIMIT p_room
        LOOP
            v_log := NOT r.solo;
            EXIT WHEN (r.solo AND o_retry_offsets <> '{}') OR o_bytes >= p_bytes;
            o_retry_offsets := o_retry_offsets || r.message_offset;
            o_retry_failures := o_retry_failures || r.failures;
            o_bytes := o_bytes + (SELECT f.o_bytes FROM @schema@.log_read_end(
                p_cursor.partition_id, r.message_offset, r.message_offset + 1, p_bytes) f);
            EXIT WHEN r.solo;
        END LOOP;
    END IF;
    IF o_retry_offsets <> '{}' THEN
        SELECT range_agg(int8range(x, x + 1)) INTO o_set FROM unnest(o_retry_offsets) AS x;
    END IF;
    v_reach := least(p_log_end, CASE
        WHEN p_cursor.gaps IS NULL THEN o_next + p_room - cardinality(o_retry_offsets)
        ELSE @schema@.gap_reach(
            p_cursor.gaps, o_next, p_room - cardinality(o_retry_offsets)) END);
    v_end := v_reach;
    IF NOT v_log OR v_end <= o_next OR o_bytes >= p_bytes THEN
        RETURN;
    END IF;
    IF p_queue.delay_secs > 0 OR p_queue.window_secs > 0 THEN
        SELECT s.created_at INTO v_head FROM @schema@.segments s
        WHERE s.partition_id = p_cursor.partition_id AND s.first_offset <= o_next
        ORDER BY s.first_offset DESC LIMIT 1;
        IF v_head + v_delay > p_now
            OR (p_last_push + v_window > p_now AND v_head + 10 * v_window > p_now)
        THEN
            RETURN;
        END IF;
        -- created_at never decreases within a partition.
        SELECT s.first_offset INTO v_end FROM @schema@.segments s
        WHERE s.partition_id = p_cursor.partition_id AND s.first_offset > o_next
            AND s.first_offset < v_reach AND s.created_at + v_delay > p_now
        ORDER BY s.first_offset LIMIT 1;
        v_end := coalesce(v_end, v_reach);
    END IF;
    SELECT f.fit_end, o_bytes + f.fit_bytes INTO v_end, o_bytes
    FROM @schema@.log_read_end(p_cursor.partition_id, o_next, v_end, p_bytes - o_bytes)
        AS f (fit_end, fit_bytes);
    IF p_cursor.gaps IS NULL THEN
        o_set := o_set + int8multirange(int8range(o_next, v_end));
        o_next := v_end;
    ELSE
        o_set := o_set + (int8multirange(int8range(o_next, v_end)) - p_cursor.gaps);
        o_next := @schema@.gap_end(p_cursor.gaps, v_end);
    END IF;
END
$$;
