-- All groups, or those with one name (?1), and how far they are behind at ?2.
SELECT g.group_id, g.queue_id, g.name, q.name, g.mode, g.from_at, g.created_at,
       count(c.partition_id),
       coalesce(sum(p.next_offset > c.next_offset OR c.parked > 0 OR c.lease_token IS NOT NULL), 0),
       coalesce(sum(p.next_offset - c.next_offset + c.parked - CASE p.gaps WHEN 0 THEN 0 ELSE
           (SELECT count(*) FROM gaps x WHERE x.partition_id = p.partition_id AND x.offset >= c.next_offset) END), 0),
       coalesce(sum(coalesce(c.lease_until > ?2, 0)), 0), g.polled_at, g.settled
FROM groups g
JOIN queues q ON q.queue_id = g.queue_id
LEFT JOIN partitions p ON p.queue_id = g.queue_id
LEFT JOIN cursors c ON c.partition_id = p.partition_id AND c.group_id = g.group_id
WHERE ?1 IS NULL OR g.name = ?1
GROUP BY g.group_id ORDER BY g.name, q.name
