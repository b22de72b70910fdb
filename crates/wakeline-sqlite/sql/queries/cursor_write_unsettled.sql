-- Writes the columns of a cursor that a settlement changes while the lease goes on. No index
-- contains them.
UPDATE cursors SET parked = ?3, lease_set = ?4, lease_failed = ?5, lease_released = ?6
WHERE partition_id = ?1 AND group_id = ?2
