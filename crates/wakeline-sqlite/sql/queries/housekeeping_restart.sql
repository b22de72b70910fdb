-- Makes all queues with time limits due for housekeeping. Runs when a restart is requested.
UPDATE housekeeping SET due_at = ?1, after_partition = 0, next_at = NULL WHERE due_at IS NOT NULL
