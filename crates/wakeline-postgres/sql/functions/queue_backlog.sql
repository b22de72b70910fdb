-- Returns the partitions of a queue in which something is unread or unsettled, with the state of
-- the group that is furthest behind there, of those that are not idle (see groups_retaining); of
-- equals the first by name. p_group: only this group counts; one that does not exist is treated
-- like one that begins with all stored messages, and so is a queue without groups. lag: unread or
-- unsettled messages; processing: those of them under a live lease; retrying: parked, and under no
-- lease; next_offset, lease_set, gaps: of the cursor. Only cursors that have something to do are
-- read; segments only without a group, one index probe for each partition. Reads only.

CREATE OR REPLACE FUNCTION @schema@.queue_backlog(p_queue integer, p_group text, p_now timestamptz)
RETURNS TABLE (
    partition_id bigint, group_id integer, lag bigint, processing bigint, retrying bigint,
    next_offset bigint, lease_set int8multirange, gaps int8multirange)
LANGUAGE plpgsql STABLE
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_groups integer[];
BEGIN
    IF p_group IS NULL THEN
        v_groups := @schema@.groups_retaining(p_queue, p_now);
    ELSE
        v_groups := ARRAY(SELECT g.group_id FROM @schema@.groups g
            WHERE g.queue_id = p_queue AND g.name = p_group);
    END IF;
    IF v_groups <> '{}' THEN
        RETURN QUERY
        SELECT DISTINCT ON (c.partition_id) c.partition_id, c.group_id, l.lag,
            CASE WHEN c.lease_until > p_now THEN (
                SELECT sum(upper(r) - lower(r)) FROM unnest(c.lease_set) AS r)::bigint
            ELSE 0 END,
            c.parked - CASE WHEN c.lease_set IS NULL THEN 0 ELSE coalesce((
                SELECT sum(upper(r) - lower(r)) FROM unnest(c.lease_set
                    * int8multirange(int8range(NULL, c.lease_start))) AS r), 0)::bigint END,
            c.next_offset, c.lease_set, c.gaps
        FROM unnest(v_groups) AS x (group_id)
        JOIN @schema@.groups g ON g.group_id = x.group_id
        JOIN @schema@.cursors c ON c.group_id = g.group_id AND c.due_at IS NOT NULL
        JOIN @schema@.partitions p ON p.partition_id = c.partition_id
        CROSS JOIN LATERAL (SELECT @schema@.cursor_lag(c, p.next_offset) AS lag) l
        WHERE l.lag > 0
        ORDER BY c.partition_id, l.lag DESC, g.name COLLATE "C";
        RETURN;
    END IF;
    RETURN QUERY
    SELECT p.partition_id, NULL::integer,
        p.next_offset - s.first_offset - @schema@.gap_len(p.gaps, s.first_offset, NULL),
        0::bigint, 0::bigint, s.first_offset, NULL::int8multirange, p.gaps
    FROM @schema@.partitions p
    CROSS JOIN LATERAL (
        SELECT x.first_offset FROM @schema@.segments x WHERE x.partition_id = p.partition_id
        ORDER BY x.first_offset LIMIT 1) s
    WHERE p.queue_id = p_queue;
END
$$;
