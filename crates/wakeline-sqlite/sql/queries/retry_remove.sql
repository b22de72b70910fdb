-- Removes a parked message that was settled.
DELETE FROM retries WHERE partition_id = ?1 AND group_id = ?2 AND offset = ?3
