-- The partitions of a queue that are leased to a group.
SELECT c.partition_id FROM partitions p
JOIN cursors c ON c.partition_id = p.partition_id AND c.group_id = ?2
WHERE p.queue_id = ?1 AND c.lease_token IS NOT NULL
