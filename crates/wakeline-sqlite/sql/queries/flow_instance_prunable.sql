-- Instances of which executions can be pruned (?3 and ?4: see flow_execution_prunable), those that
-- ended first in front; only those that ended before ?1, if that is given.
-- Called by: delete::prunable.
SELECT i.instance FROM instances i
WHERE (?1 IS NULL OR i.ended_at < ?1) AND i.execution > ?3 AND EXISTS (
  SELECT 1 FROM executions e
  WHERE e.lane_id = i.lane_id AND e.execution <> i.execution
    AND e.execution NOT IN (
      SELECT n.execution FROM executions n WHERE n.lane_id = i.lane_id ORDER BY n.execution DESC LIMIT ?3)
    AND (?4 IS NULL OR e.ended_at < ?4))
ORDER BY i.ended_at, i.instance LIMIT ?2
