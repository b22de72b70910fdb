-- Moves the end of a lease; the cursor is next due when it ends.
-- Called by: settle::extend.
UPDATE cursors SET lease_until = ?3, due_at = ?3 WHERE partition_id = ?1 AND group_id = ?2
