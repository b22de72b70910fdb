-- Lanes that could be claimed at a moment and were not; longest first.
-- Called by: unclaimed::all.
SELECT l.instance, l.capability_id, l.due_at
FROM capabilities c CROSS JOIN lanes l INDEXED BY lanes_due
WHERE l.capability_id = c.capability_id AND l.due_at <= ?1 ORDER BY l.due_at LIMIT ?2
