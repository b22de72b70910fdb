-- The cursors of a partition (?2) of a queue (?1), ordered by group name.
SELECT c.partition_id, c.group_id, p.next_offset, c.next_offset, c.parked, c.lease_until, c.lease_start, c.lease_set,
    CASE p.gaps WHEN 0 THEN 0 ELSE
        (SELECT count(*) FROM gaps x WHERE x.partition_id = p.partition_id AND x.offset >= c.next_offset) END
FROM groups g
JOIN cursors c ON c.partition_id = ?2 AND c.group_id = g.group_id
JOIN partitions p ON p.partition_id = c.partition_id
WHERE g.queue_id = ?1
ORDER BY g.name
