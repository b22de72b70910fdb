-- Returns the state of one message for each group of a queue: 0 pending, 1 processing, 2 dead
-- letter, 3 completed. Reads only.

CREATE OR REPLACE FUNCTION @schema@.message_state(
    p_partition bigint, p_offset bigint, p_now timestamptz)
RETURNS TABLE (o_group text, o_state smallint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT g.name::text, CASE
        WHEN c.lease_set @> p_offset AND c.lease_until > p_now THEN 1
        WHEN c.lease_set @> p_offset OR c.next_offset <= p_offset THEN 0
        WHEN c.parked > 0 AND EXISTS (SELECT FROM @schema@.retries r
            WHERE r.partition_id = p_partition AND r.group_id = g.group_id
                AND r.message_offset = p_offset) THEN 0
        WHEN EXISTS (SELECT FROM @schema@.dead_letters d WHERE d.partition_id = p_partition
            AND d.message_offset = p_offset AND d.group_name = g.name) THEN 2
        ELSE 3 END::smallint
    FROM @schema@.partitions p
    JOIN @schema@.groups g ON g.queue_id = p.queue_id
    JOIN @schema@.cursors c ON c.partition_id = p.partition_id AND c.group_id = g.group_id
    WHERE p.partition_id = p_partition;
END
$$;
