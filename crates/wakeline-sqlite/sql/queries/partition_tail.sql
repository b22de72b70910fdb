-- The end of a partition's log.
-- Called by: push::tail.
SELECT next_offset, last_push_at FROM partitions WHERE partition_id = ?1
