-- The cursors of a queue that have messages to read or to settle.
SELECT c.partition_id, c.group_id FROM groups g
JOIN cursors c ON c.group_id = g.group_id AND c.due_at IS NOT NULL
WHERE g.queue_id = ?1
