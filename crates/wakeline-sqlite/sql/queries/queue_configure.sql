-- Replaces a queue's namespace, task and options.
UPDATE queues SET namespace = ?2, task = ?3, options = ?4 WHERE queue_id = ?1
