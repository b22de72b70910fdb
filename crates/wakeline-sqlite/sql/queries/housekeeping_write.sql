-- Stores the progress of the pass over a queue.
UPDATE housekeeping SET due_at = ?2, after_partition = ?3, next_at = ?4 WHERE queue_id = ?1
