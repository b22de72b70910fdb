-- The partitions of a queue, or one of them (?3), that received a push at or after a time.
SELECT partition_id, next_offset, last_push_at
FROM partitions WHERE queue_id = ?1 AND last_push_at >= ?2 AND next_offset > 0
  AND (?3 IS NULL OR name = ?3)
