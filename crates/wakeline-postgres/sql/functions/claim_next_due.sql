-- Returns the time until the next message of a line after a claim: zero if something is left, a
-- short time if something is locked. p_windowed: some queue has a window, so that due times may be
-- early and have to be checked. p_passed: partitions that the claim has read; p_kept: those of them
-- that it left due although it found nothing, because a push or a configure was in progress.
-- o_state: 2 if only locked cursors are due, else 0. Reads only.

CREATE OR REPLACE FUNCTION @schema@.claim_next_due(
    p_partition bigint, p_groups integer[], p_windowed boolean, p_passed bigint[], p_kept bigint[],
    p_now timestamptz, OUT o_state smallint, OUT o_next_due_us bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_first timestamptz;
    v_rivals boolean;
    v_left boolean;
BEGIN
    o_state := 0;
    IF p_windowed THEN
        SELECT min(@schema@.group_due(x.group_id, p_partition, p_now)) INTO v_first
        FROM unnest(p_groups) AS x (group_id);
    ELSIF p_partition IS NOT NULL THEN
        SELECT f.due_at INTO v_first FROM @schema@.cursors f
        WHERE f.partition_id = p_partition AND f.group_id = p_groups[1];
    ELSE
        SELECT f.due_at INTO v_first FROM unnest(p_groups) AS x (group_id)
        CROSS JOIN LATERAL (
            SELECT f.due_at FROM @schema@.cursors f
            WHERE f.group_id = x.group_id AND f.due_at IS NOT NULL
            ORDER BY f.due_at LIMIT 1) f
        ORDER BY f.due_at LIMIT 1;
    END IF;
    IF v_first > p_now THEN
        o_next_due_us := ceil(extract(epoch FROM v_first - p_now) * 1000000)::bigint;
    END IF;
    IF v_first IS NULL OR v_first > p_now THEN
        RETURN;
    END IF;
    SELECT coalesce(bool_or(f.partition_id <> ALL (p_passed)), false),
        coalesce(bool_or(f.partition_id = ANY (p_passed) AND f.partition_id <> ALL (p_kept)), false)
    INTO v_rivals, v_left
    FROM unnest(p_groups) AS x (group_id)
    CROSS JOIN LATERAL (
        SELECT f.partition_id FROM @schema@.cursors f
        WHERE f.group_id = x.group_id AND f.due_at <= p_now
            AND (p_partition IS NULL OR f.partition_id = p_partition)
        ORDER BY f.due_at LIMIT 200) f;
    IF v_rivals THEN
        o_state := 2;
    END IF;
    o_next_due_us := CASE WHEN v_left THEN 0 ELSE 2000 END;
END
$$;
