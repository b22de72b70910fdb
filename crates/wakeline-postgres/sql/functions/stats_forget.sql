-- Removes up to p_rows statistics of queues and as many of nodes that are older than a time.
-- Returns the larger of the two numbers. Lock order: old rows; those that another node is removing
-- are skipped.

CREATE OR REPLACE FUNCTION @schema@.stats_forget(p_before timestamptz, p_rows integer)
RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    v_queues integer;
    v_nodes integer;
BEGIN
    DELETE FROM @schema@.queue_stats s USING (
        SELECT x.node, x.slot, x.queue FROM @schema@.queue_stats x
        WHERE x.bucket < p_before
        ORDER BY x.bucket LIMIT p_rows FOR UPDATE SKIP LOCKED) o
    WHERE s.node = o.node AND s.slot = o.slot AND s.queue = o.queue;
    GET DIAGNOSTICS v_queues = ROW_COUNT;
    DELETE FROM @schema@.node_stats s USING (
        SELECT x.node, x.slot FROM @schema@.node_stats x
        WHERE x.bucket < p_before
        ORDER BY x.bucket LIMIT p_rows FOR UPDATE SKIP LOCKED) o
    WHERE s.node = o.node AND s.slot = o.slot;
    GET DIAGNOSTICS v_nodes = ROW_COUNT;
    RETURN greatest(v_queues, v_nodes);
END
$$;
