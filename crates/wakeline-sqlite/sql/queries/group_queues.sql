-- The queues that have a group with a name, or one of these queues (?2), with the group's id in
-- each.
SELECT g.queue_id, g.group_id FROM groups g JOIN queues q ON q.queue_id = g.queue_id
WHERE g.name = ?1 AND (?2 IS NULL OR q.name = ?2) ORDER BY q.name
