-- Where the look through a queue stands. Called by: housekeep.
UPDATE housekeeping SET due_at = ?2, after_partition = ?3, next_at = ?4 WHERE queue_id = ?1
