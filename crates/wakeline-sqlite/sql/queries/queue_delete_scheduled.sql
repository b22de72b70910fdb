-- Removes the scheduled messages of a queue.
DELETE FROM scheduled WHERE queue_id = ?1
