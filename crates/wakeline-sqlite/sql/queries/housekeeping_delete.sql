-- Forgets a queue. Called by: delete_queue.
DELETE FROM housekeeping WHERE queue_id = ?1
