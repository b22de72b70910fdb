-- The earliest time at which a parked message may be delivered again, for relaxed ordering.
SELECT due_at FROM retries WHERE partition_id = ?1 AND group_id = ?2 ORDER BY due_at LIMIT 1
