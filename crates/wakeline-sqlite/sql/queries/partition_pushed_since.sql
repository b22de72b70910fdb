-- The partitions of a queue, or one of them (?3), that were pushed to at or after a moment.
-- Called by: group::start_from.
SELECT partition_id, next_offset, last_push_at
FROM partitions WHERE queue_id = ?1 AND last_push_at >= ?2 AND next_offset > 0
  AND (?3 IS NULL OR name = ?3)
