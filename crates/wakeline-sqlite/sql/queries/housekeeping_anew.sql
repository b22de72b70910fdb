-- Makes all queues with limits of time due. Called by: housekeep, when asked to look anew.
UPDATE housekeeping SET due_at = ?1, after_partition = 0, next_at = NULL WHERE due_at IS NOT NULL
