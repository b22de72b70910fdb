-- Writes all columns of a cursor that a claim or the end of a lease may change.
UPDATE cursors
SET next_offset = ?3, due_at = ?4, freed_at = ?5, parked = ?6,
    lease_token = ?7, lease_until = ?8, lease_start = ?9, lease_set = ?10,
    taken_at = ?11, taken_by = ?12,
    lease_all = ?13, lease_failed = ?14, lease_expired = ?15, lease_released = ?16
WHERE partition_id = ?1 AND group_id = ?2
