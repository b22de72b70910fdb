-- When the soonest parked message may be delivered again.
-- Called by: Cursor::due, under relaxed ordering.
SELECT due_at FROM retries WHERE partition_id = ?1 AND group_id = ?2 ORDER BY due_at LIMIT 1
