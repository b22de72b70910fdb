-- The queues that have a group of a name, or one of them (?2).
-- Called by: configure::standing.
SELECT g.queue_id, g.group_id FROM groups g JOIN queues q ON q.queue_id = g.queue_id
WHERE g.name = ?1 AND (?2 IS NULL OR q.name = ?2) ORDER BY q.name
