-- What is remembered of a message that was parked before.
-- Called by: Cursor::held.
SELECT failures, alone, error FROM retries WHERE partition_id = ?1 AND group_id = ?2 AND offset = ?3
