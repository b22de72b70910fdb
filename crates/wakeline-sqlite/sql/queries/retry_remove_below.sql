-- Forgets what was parked of messages that are gone. Called by: housekeep.
DELETE FROM retries WHERE partition_id = ?1 AND group_id = ?2 AND offset < ?3
