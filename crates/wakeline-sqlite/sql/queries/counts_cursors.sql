-- The cursors of a queue that have messages to read or to settle, of one group (?2, by name) or of
-- all groups.
SELECT c.partition_id, c.group_id, p.next_offset, c.next_offset, c.parked, c.lease_until, c.lease_start, c.lease_set,
    CASE p.gaps WHEN 0 THEN 0 ELSE
        (SELECT count(*) FROM gaps x WHERE x.partition_id = p.partition_id AND x.offset >= c.next_offset) END
FROM groups g
JOIN cursors c ON c.group_id = g.group_id AND c.due_at IS NOT NULL
JOIN partitions p ON p.partition_id = c.partition_id
WHERE g.queue_id = ?1 AND (?2 IS NULL OR g.name = ?2)
ORDER BY g.name
