-- Forgets a parked message that is settled.
-- Called by: Cursor::unpark.
DELETE FROM retries WHERE partition_id = ?1 AND group_id = ?2 AND offset = ?3
