-- A cursor with the columns of its partition that claims need.
SELECT c.partition_id, c.group_id, c.next_offset, c.due_at, c.freed_at, c.parked,
       c.lease_token, c.lease_until, c.lease_start, c.lease_set,
       p.queue_id, p.name, p.next_offset, p.last_push_at,
       c.taken_at, c.taken_by, c.lease_all, c.lease_failed, c.lease_expired, c.lease_released,
       CASE p.gaps WHEN 0 THEN 0 ELSE
        (SELECT count(*) FROM gaps x WHERE x.partition_id = p.partition_id AND x.offset >= c.next_offset) END
FROM cursors c JOIN partitions p ON p.partition_id = c.partition_id
WHERE c.partition_id = ?1 AND c.group_id = ?2
