-- The next cursors of a group that may have messages now, in order of their due times, after a
-- position in that order. Uses the index cursors_due.
SELECT due_at, partition_id FROM cursors
WHERE group_id = ?1 AND due_at <= ?2 AND (due_at, partition_id) > (?3, ?4)
ORDER BY due_at, partition_id LIMIT ?5
