-- The end of a partition's log.
SELECT next_offset, last_push_at FROM partitions WHERE partition_id = ?1
