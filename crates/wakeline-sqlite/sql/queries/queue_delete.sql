-- Removes a queue whose contents were removed.
DELETE FROM queues WHERE queue_id = ?1
