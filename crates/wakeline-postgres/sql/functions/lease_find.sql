-- Returns what is held under a token in a line, for a claim that is repeated after an unknown
-- outcome. There is no index over tokens: this reads the line's leases, and is called for
-- repetitions only. Reads only.

CREATE OR REPLACE FUNCTION @schema@.lease_find(
    p_partition bigint, p_groups integer[], p_token uuid, p_now timestamptz)
RETURNS TABLE (partition_id bigint, group_id integer, lease_set int8multirange, lease_us bigint,
    offsets bigint[], failures integer[])
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT k.partition_id, k.group_id, k.lease_set,
        (extract(epoch FROM k.lease_until - p_now) * 1000000)::bigint,
        coalesce(r.offsets, '{}'), coalesce(r.failures, '{}')
    FROM unnest(p_groups) AS x (group_id)
    JOIN @schema@.cursors k ON k.group_id = x.group_id AND k.due_at IS NOT NULL
    CROSS JOIN LATERAL (
        SELECT array_agg(t.message_offset) AS offsets, array_agg(t.failures) AS failures
        FROM @schema@.retries t
        WHERE k.parked > 0 AND t.partition_id = k.partition_id AND t.group_id = k.group_id
            AND k.lease_set @> t.message_offset
    ) r
    WHERE k.lease_token = p_token AND k.lease_until > p_now
        AND (p_partition IS NULL OR k.partition_id = p_partition);
END
$$;
