-- Moves the end of a partition's log.
UPDATE partitions SET next_offset = ?2, last_push_at = ?3 WHERE partition_id = ?1
