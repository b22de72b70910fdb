-- Removes the parked messages of a partition.
DELETE FROM retries WHERE partition_id = ?1
