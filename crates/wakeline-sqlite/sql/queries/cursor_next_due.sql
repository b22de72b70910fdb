-- When a cursor may have something.
-- Called by: sweep::next_due, for lines of one partition.
SELECT due_at FROM cursors WHERE partition_id = ?1 AND group_id = ?2
