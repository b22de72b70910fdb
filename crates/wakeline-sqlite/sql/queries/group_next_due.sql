-- The first cursors of a group by due time, in any partition. Reads the first entries of the group
-- in the index cursors_due.
SELECT due_at, partition_id FROM cursors
WHERE group_id = ?1 AND due_at IS NOT NULL ORDER BY due_at, partition_id LIMIT ?2
