-- Returns when something can be taken from a cursor that has no lease; NULL if nothing is left. A
-- parked message that blocks its partition does so at most until its ttl. Reads only.

CREATE OR REPLACE FUNCTION @schema@.cursor_due(
    p_partition bigint, p_group integer, p_next bigint, p_parked integer, p_end bigint,
    p_last_push timestamptz, p_strict boolean, p_delay bigint, p_window bigint,
    p_ttl bigint)
RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_parked timestamptz;
BEGIN
    IF p_parked > 0 AND p_strict THEN
        SELECT least(r.due_at, CASE WHEN p_ttl > 0 THEN make_interval(secs => p_ttl) + (
            SELECT s.created_at FROM @schema@.segments s
            WHERE s.partition_id = p_partition AND s.first_offset <= r.message_offset
            ORDER BY s.first_offset DESC LIMIT 1) END)
        INTO v_parked FROM @schema@.retries r
        WHERE r.partition_id = p_partition AND r.group_id = p_group
        ORDER BY r.message_offset LIMIT 1;
        RETURN v_parked;
    ELSIF p_parked > 0 THEN
        SELECT r.due_at INTO v_parked FROM @schema@.retries r
        WHERE r.partition_id = p_partition AND r.group_id = p_group
        ORDER BY r.due_at, r.message_offset LIMIT 1;
    END IF;
    IF p_end > p_next THEN
        RETURN least(v_parked,
            @schema@.log_due(p_partition, p_next, p_last_push, p_delay, p_window));
    END IF;
    RETURN v_parked;
END
$$;
