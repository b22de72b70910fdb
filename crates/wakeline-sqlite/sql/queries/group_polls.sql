-- The groups of a queue with their last recorded polls, and whether each has ever settled a
-- message.
SELECT group_id, polled_at, settled FROM groups WHERE queue_id = ?1
