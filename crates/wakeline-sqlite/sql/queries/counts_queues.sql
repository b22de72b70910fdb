-- All queues, or one queue (?1), ordered by name.
SELECT queue_id, created_at FROM queues WHERE ?1 IS NULL OR name = ?1
ORDER BY name LIMIT ?2 OFFSET ?3
