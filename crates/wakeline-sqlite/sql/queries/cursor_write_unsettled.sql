-- Writes what a settlement changes of a lease that goes on; no index is touched.
-- Called by: Cursor::write_unsettled.
UPDATE cursors SET parked = ?3, lease_set = ?4, lease_failed = ?5, lease_released = ?6
WHERE partition_id = ?1 AND group_id = ?2
