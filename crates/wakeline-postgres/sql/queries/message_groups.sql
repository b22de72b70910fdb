-- Returns the state of one message for each group of a queue: 0 pending, 1 processing, 2 dead
-- letter, 3 completed; its failures, and the last error of groups that retry it or have given it
-- up.
SELECT g.name, CASE
    WHEN c.lease_set @> $2::bigint AND c.lease_until > @schema@.clock() THEN 1
    WHEN c.lease_set @> $2::bigint OR c.next_offset <= $2 OR r.failures IS NOT NULL THEN 0
    WHEN EXISTS (SELECT FROM @schema@.dead_letters d WHERE d.partition_id = $1
        AND d.message_offset = $2 AND d.group_name = g.name) THEN 2
    ELSE 3 END::smallint, coalesce(r.failures, 0), coalesce(r.error, (
        SELECT d.error FROM @schema@.dead_letters d WHERE d.partition_id = $1
            AND d.message_offset = $2 AND d.group_name = g.name
        ORDER BY d.dead_letter_id DESC LIMIT 1))
FROM @schema@.partitions p
JOIN @schema@.groups g ON g.queue_id = p.queue_id
JOIN @schema@.cursors c ON c.partition_id = p.partition_id AND c.group_id = g.group_id
LEFT JOIN @schema@.retries r ON r.partition_id = p.partition_id AND r.group_id = g.group_id
    AND r.message_offset = $2
WHERE p.partition_id = $1
ORDER BY g.name
