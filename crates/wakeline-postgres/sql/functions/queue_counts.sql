-- Returns the counts of queues: of one (p_queue) or all, by name. total counts every message that
-- was ever pushed; for the other counts see queue_backlog. given_up: messages with a dead letter
-- that are not behind; dead: dead letters. Reads only partitions, cursors that have something to
-- do, and dead letters by their index; no message.

CREATE OR REPLACE FUNCTION @schema@.queue_counts(p_queue text, p_limit bigint, p_offset bigint)
RETURNS TABLE (
    queue_id integer, name text, namespace text, task text, created_at timestamptz,
    priority integer, partitions bigint, behind bigint, leased bigint, dead_partitions bigint,
    leases bigint, total bigint, pending bigint, processing bigint, retrying bigint,
    given_up bigint, dead bigint, expired bigint, evicted bigint, dropped bigint)
LANGUAGE plpgsql STABLE
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := @schema@.clock();
    q record;
BEGIN
    FOR q IN SELECT x.queue_id, x.name, x.namespace, x.task, x.created_at, x.priority
        FROM @schema@.queues x WHERE p_queue IS NULL OR x.name = p_queue
        ORDER BY x.name COLLATE "C" LIMIT p_limit OFFSET p_offset
    LOOP
        queue_id := q.queue_id; name := q.name; namespace := q.namespace; task := q.task;
        created_at := q.created_at; priority := q.priority;
        SELECT count(*), coalesce(sum(p.next_offset), 0)::bigint INTO partitions, total
        FROM @schema@.partitions p WHERE p.queue_id = q.queue_id;
        SELECT count(*), count(DISTINCT c.partition_id) INTO leases, leased
        FROM @schema@.groups g JOIN @schema@.cursors c ON c.group_id = g.group_id
        WHERE g.queue_id = q.queue_id AND c.due_at > v_now AND c.lease_until > v_now;
        WITH back AS MATERIALIZED (
            SELECT b.* FROM @schema@.queue_backlog(q.queue_id, NULL, v_now) b
        ), letter AS MATERIALIZED (
            SELECT d.partition_id, d.message_offset, count(*) AS len
            FROM @schema@.dead_letters d WHERE d.queue_id = q.queue_id
            GROUP BY d.partition_id, d.message_offset
        )
        SELECT s.behind, s.pending, s.processing, s.retrying, l.given_up, l.dead, l.partitions
        INTO behind, pending, processing, retrying, given_up, dead, dead_partitions
        FROM (
            SELECT count(*) AS behind, coalesce(sum(b.lag - b.processing), 0)::bigint AS pending,
                coalesce(sum(b.processing), 0)::bigint AS processing,
                coalesce(sum(b.retrying), 0)::bigint AS retrying
            FROM back b
        ) s CROSS JOIN (
            SELECT count(DISTINCT d.partition_id) AS partitions,
                coalesce(sum(d.len), 0)::bigint AS dead,
                count(*) FILTER (WHERE b.partition_id IS NULL
                    OR ((d.message_offset < b.next_offset
                            OR coalesce(b.gaps @> d.message_offset, false))
                        AND NOT coalesce(b.lease_set @> d.message_offset, false)
                        AND NOT EXISTS (SELECT FROM @schema@.retries r
                            WHERE r.partition_id = d.partition_id AND r.group_id = b.group_id
                                AND r.message_offset = d.message_offset))) AS given_up
            FROM letter d LEFT JOIN back b ON b.partition_id = d.partition_id
        ) l;
        SELECT coalesce(sum(h.expired), 0)::bigint, coalesce(sum(h.evicted), 0)::bigint,
            coalesce(sum(h.dropped), 0)::bigint
        INTO expired, evicted, dropped
        FROM (
            SELECT x.expired, x.evicted, x.dropped FROM @schema@.housekeeping x
            WHERE x.queue_id = q.queue_id
            UNION ALL
            SELECT x.expired, x.evicted, x.dropped FROM @schema@.losses x
            WHERE x.queue_id = q.queue_id
        ) h;
        RETURN NEXT;
    END LOOP;
END
$$;
