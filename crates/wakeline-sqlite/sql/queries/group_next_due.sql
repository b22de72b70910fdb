-- The cursors of a group that may have something first, in any partition.
-- Called by: sweep::group_due. Reads the first entries of the group in cursors_due.
SELECT due_at, partition_id FROM cursors
WHERE group_id = ?1 AND due_at IS NOT NULL ORDER BY due_at, partition_id LIMIT ?2
