-- The groups of a queue. Called by: room::room.
SELECT group_id FROM groups WHERE queue_id = ?1
