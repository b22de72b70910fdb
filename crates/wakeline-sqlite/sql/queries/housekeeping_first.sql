-- The queue that has been due for housekeeping the longest.
SELECT queue_id, due_at, after_partition, next_at FROM housekeeping
WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1
