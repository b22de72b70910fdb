-- Removes the dead letters of a queue.
DELETE FROM dead_letters WHERE queue_id = ?1
