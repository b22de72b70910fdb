-- A cursor by its partition and its group's name, as settlements name it.
SELECT c.partition_id, c.group_id, c.next_offset, c.due_at, c.freed_at, c.parked,
       c.lease_token, c.lease_until, c.lease_start, c.lease_set,
       p.queue_id, p.name, p.next_offset, p.last_push_at,
       c.taken_at, c.taken_by, c.lease_all, c.lease_failed, c.lease_expired, c.lease_released,
       CASE p.gaps WHEN 0 THEN 0 ELSE
        (SELECT count(*) FROM gaps x WHERE x.partition_id = p.partition_id AND x.offset >= c.next_offset) END
FROM partitions p
JOIN groups g ON g.queue_id = p.queue_id AND g.name = ?2
JOIN cursors c ON c.partition_id = p.partition_id AND c.group_id = g.group_id
WHERE p.partition_id = ?1
