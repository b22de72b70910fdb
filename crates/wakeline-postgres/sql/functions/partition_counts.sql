-- Returns the counts of partitions of a queue, in the order of their ids. For the meaning of the
-- counts see queue_counts; here the group is chosen by reading all cursors of the listed
-- partitions. first_at: when the oldest stored message was pushed, one index probe each. Reads only; the cost
-- grows with the number of listed partitions.

CREATE OR REPLACE FUNCTION @schema@.partition_counts(p_queue text, p_limit bigint, p_offset bigint)
RETURNS TABLE (
    name text, partition_id bigint, total bigint, pending bigint, processing bigint,
    retrying bigint, given_up bigint, dead bigint, first_at timestamptz, last_push_at timestamptz)
LANGUAGE plpgsql STABLE
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := @schema@.clock();
    v_queue integer;
    v_groups integer[];
    p record;
    s record;
    c record;
BEGIN
    SELECT q.queue_id INTO v_queue FROM @schema@.queues q WHERE q.name = p_queue;
    v_groups := @schema@.groups_retaining(v_queue, v_now);
    FOR p IN SELECT x.partition_id, x.name, x.next_offset, x.last_push_at, x.gaps
        FROM @schema@.partitions x
        WHERE x.queue_id = v_queue
        ORDER BY x.queue_id, x.partition_id LIMIT p_limit OFFSET p_offset
    LOOP
        name := p.name; partition_id := p.partition_id; total := p.next_offset;
        last_push_at := CASE WHEN p.next_offset > 0 THEN p.last_push_at END;
        SELECT x.first_offset, x.created_at INTO s FROM @schema@.segments x
        WHERE x.partition_id = p.partition_id ORDER BY x.first_offset LIMIT 1;
        first_at := s.created_at;
        SELECT k.group_id, k.next_offset, k.lease_set, @schema@.cursor_lag(k, p.next_offset) AS lag,
            k.gaps,
            CASE WHEN k.lease_until > v_now THEN (
                SELECT sum(upper(r) - lower(r)) FROM unnest(k.lease_set) AS r)::bigint
            ELSE 0 END AS processing,
            k.parked - CASE WHEN k.lease_set IS NULL THEN 0 ELSE coalesce((
                SELECT sum(upper(r) - lower(r)) FROM unnest(k.lease_set
                    * int8multirange(int8range(NULL, k.lease_start))) AS r), 0)::bigint END
                AS retrying
        INTO c
        FROM @schema@.cursors k JOIN @schema@.groups g ON g.group_id = k.group_id
        WHERE k.partition_id = p.partition_id AND k.group_id = ANY (v_groups)
        ORDER BY 4 DESC, g.name COLLATE "C" LIMIT 1;
        IF c.group_id IS NULL THEN
            c.next_offset := coalesce(s.first_offset, p.next_offset); c.gaps := p.gaps;
            pending := p.next_offset - c.next_offset
                - @schema@.gap_len(p.gaps, c.next_offset, NULL);
            processing := 0; retrying := 0;
        ELSE
            pending := c.lag - c.processing; processing := c.processing; retrying := c.retrying;
        END IF;
        SELECT count(*), count(DISTINCT d.message_offset) FILTER (
            WHERE (d.message_offset < c.next_offset OR coalesce(c.gaps @> d.message_offset, false))
                AND NOT coalesce(c.lease_set @> d.message_offset, false)
                AND NOT EXISTS (SELECT FROM @schema@.retries r
                    WHERE r.partition_id = d.partition_id AND r.group_id = c.group_id
                        AND r.message_offset = d.message_offset))
        INTO dead, given_up
        FROM @schema@.dead_letters d WHERE d.partition_id = p.partition_id;
        RETURN NEXT;
    END LOOP;
END
$$;
