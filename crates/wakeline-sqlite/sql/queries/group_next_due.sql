-- When a group may have something, in any partition.
-- Called by: sweep::next_due. Reads the first entry of the group in cursors_due.
SELECT due_at FROM cursors WHERE group_id = ?1 AND due_at IS NOT NULL ORDER BY due_at LIMIT 1
