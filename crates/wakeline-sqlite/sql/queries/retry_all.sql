-- All parked messages of a cursor, for queues with time limits.
SELECT offset, due_at FROM retries WHERE partition_id = ?1 AND group_id = ?2 ORDER BY offset
