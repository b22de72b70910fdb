-- Returns how much a group of a queue still has to settle, or (p_group NULL) the group that is
-- furthest behind in each partition. The first row has no name: its len is that of the queue,
-- partitions the number of partitions that have something; no row if the queue does not exist. Then
-- come some of these partitions, by their ids. Reads only, as queue_backlog.

CREATE OR REPLACE FUNCTION @schema@.queue_depth(
    p_queue text, p_group text, p_limit bigint, p_offset bigint)
RETURNS TABLE (name text, len bigint, partitions bigint)
LANGUAGE plpgsql STABLE
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_queue integer;
BEGIN
    SELECT q.queue_id INTO v_queue FROM @schema@.queues q WHERE q.name = p_queue;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH back AS MATERIALIZED (
        SELECT b.partition_id, b.lag
        FROM @schema@.queue_backlog(v_queue, p_group, @schema@.clock()) b
    )
    SELECT NULL::text, coalesce(sum(b.lag), 0)::bigint, count(*) FROM back b
    UNION ALL
    SELECT p.name, x.lag, NULL::bigint FROM (
        SELECT b.partition_id, b.lag FROM back b
        ORDER BY b.partition_id LIMIT p_limit OFFSET p_offset
    ) x JOIN @schema@.partitions p ON p.partition_id = x.partition_id;
END
$$;
