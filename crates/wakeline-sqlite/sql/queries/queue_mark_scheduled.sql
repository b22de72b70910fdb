-- Notes that messages are scheduled in a queue: pushes and claims have to look for them.
-- Called by: schedule::mark.
UPDATE queues SET scheduled = 1 WHERE queue_id = ?1
