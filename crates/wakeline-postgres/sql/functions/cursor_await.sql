-- Waits, as long as lock_timeout allows, for the first due cursor of a line that another claim has
-- locked. Call it while the transaction holds no lock. Lock order: one cursor.

CREATE OR REPLACE FUNCTION @schema@.cursor_await(
    p_partition bigint, p_groups integer[], p_now timestamptz)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_partition bigint := p_partition;
    v_group integer := p_groups[1];
BEGIN
    IF p_partition IS NULL THEN
        SELECT f.partition_id, f.group_id INTO v_partition, v_group
        FROM unnest(p_groups) AS x (group_id)
        CROSS JOIN LATERAL (
            SELECT f.partition_id, f.group_id, f.due_at FROM @schema@.cursors f
            WHERE f.group_id = x.group_id AND f.due_at <= p_now
            ORDER BY f.due_at LIMIT 1) f
        ORDER BY f.due_at LIMIT 1;
    END IF;
    PERFORM FROM @schema@.cursors k
    WHERE k.partition_id = v_partition AND k.group_id = v_group
    FOR NO KEY UPDATE;
END
$$;
