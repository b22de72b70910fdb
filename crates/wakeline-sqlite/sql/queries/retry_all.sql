-- All that is parked of a cursor. Called by: claims and housekeep, for queues with limits of time.
SELECT offset, due_at FROM retries WHERE partition_id = ?1 AND group_id = ?2 ORDER BY offset
