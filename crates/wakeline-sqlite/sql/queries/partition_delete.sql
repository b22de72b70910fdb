-- Removes a partition whose contents were removed.
DELETE FROM partitions WHERE partition_id = ?1
