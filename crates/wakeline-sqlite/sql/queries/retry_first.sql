-- When the first parked message, by offset, may be delivered again.
-- Called by: Cursor::due, under strict ordering.
SELECT due_at FROM retries WHERE partition_id = ?1 AND group_id = ?2 ORDER BY offset LIMIT 1
