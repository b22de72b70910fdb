-- Marks a queue that has had scheduled messages, so that pushes and claims look for them.
UPDATE queues SET scheduled = 1 WHERE queue_id = ?1
