-- The retry state of a parked message.
SELECT failures, alone, error FROM retries WHERE partition_id = ?1 AND group_id = ?2 AND offset = ?3
