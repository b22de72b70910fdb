-- Returns when the log of a partition can be read from an offset on, by delay and window. The
-- offset must exist. The window is held open by the last push, but at most for ten windows from the
-- oldest message on, or a steady producer would starve its consumers. Reads only.

CREATE OR REPLACE FUNCTION @schema@.log_due(
    p_partition bigint, p_offset bigint, p_last_push timestamptz, p_delay bigint, p_window bigint)
RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_head timestamptz;
BEGIN
    SELECT s.created_at INTO v_head FROM @schema@.segments s
    WHERE s.partition_id = p_partition AND s.first_offset <= p_offset
    ORDER BY s.first_offset DESC LIMIT 1;
    RETURN greatest(
        v_head + make_interval(secs => p_delay),
        least(p_last_push + make_interval(secs => p_window),
            v_head + 10 * make_interval(secs => p_window)));
END
$$;
