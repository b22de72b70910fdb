-- The cursors of a group that have something to read, and when.
-- Called by: configure::available.
SELECT partition_id, due_at FROM cursors WHERE group_id = ?1 AND due_at IS NOT NULL ORDER BY due_at
