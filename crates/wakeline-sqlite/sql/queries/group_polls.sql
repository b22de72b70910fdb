-- The groups of a queue, with when they were last polled, and whether they have ever settled anything.
-- Called by: idle::holding.
SELECT group_id, polled_at, settled FROM groups WHERE queue_id = ?1
