-- Lanes that could be claimed at a moment and were not; longest first. Turns of ended instances
-- only clean up, and are left out.
-- Called by: unclaimed::all.
SELECT l.instance, l.capability_id, l.due_at
FROM capabilities c CROSS JOIN lanes l INDEXED BY lanes_due
WHERE l.capability_id = c.capability_id AND l.due_at <= ?1
  AND NOT EXISTS (
      SELECT 1 FROM instances i WHERE i.lane_id = l.lane_id AND i.ended_at IS NOT NULL)
ORDER BY l.due_at LIMIT ?2
