-- The cursors of a group that have messages to read or to settle, with their due times.
SELECT partition_id, due_at FROM cursors WHERE group_id = ?1 AND due_at IS NOT NULL ORDER BY due_at
