-- Moves the end of a lease. The cursor is next due when the lease ends.
UPDATE cursors SET lease_until = ?3, due_at = ?3 WHERE partition_id = ?1 AND group_id = ?2
