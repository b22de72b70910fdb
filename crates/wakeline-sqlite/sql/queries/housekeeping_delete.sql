-- Removes the housekeeping state of a queue.
DELETE FROM housekeeping WHERE queue_id = ?1
