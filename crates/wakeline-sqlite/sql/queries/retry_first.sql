-- When the parked message with the lowest offset may be delivered again, for strict ordering.
SELECT due_at FROM retries WHERE partition_id = ?1 AND group_id = ?2 ORDER BY offset LIMIT 1
