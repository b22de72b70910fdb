-- Lanes of a capability with a turn that became available at ?2 or before, longest wait first.
-- Lanes of ended instances are left out, because their turns only clean up. Uses the index
-- lanes_due.
SELECT l.instance, l.due_at FROM lanes l INDEXED BY lanes_due
WHERE l.capability_id = ?1 AND l.due_at <= ?2
  AND NOT EXISTS (
      SELECT 1 FROM instances i WHERE i.lane_id = l.lane_id AND i.ended_at IS NOT NULL)
ORDER BY l.due_at LIMIT ?3
