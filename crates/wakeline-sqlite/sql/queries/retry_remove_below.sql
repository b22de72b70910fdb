-- Removes parked messages whose messages were removed.
DELETE FROM retries WHERE partition_id = ?1 AND group_id = ?2 AND offset < ?3
