-- A page of up to ?5 instances that may have old executions, in the order of their lanes, after ?4.
-- The name is returned only for instances that have an execution to prune (?2 and ?3 as in
-- flow_execution_prunable) and that ended before ?1, if that is given. Each instance is visited
-- once: the index executions_later contains only instances with more than one execution.
WITH RECURSIVE later (lane_id, n) AS (
  SELECT * FROM (
    SELECT lane_id, 1 FROM executions INDEXED BY executions_later
    WHERE execution > 1 AND lane_id > ?4 ORDER BY lane_id LIMIT 1)
  UNION ALL
  SELECT (
    SELECT e.lane_id FROM executions e INDEXED BY executions_later
    WHERE e.execution > 1 AND e.lane_id > l.lane_id ORDER BY e.lane_id LIMIT 1), l.n + 1
  FROM later l WHERE l.lane_id IS NOT NULL AND l.n < ?5
)
SELECT l.lane_id, (
  SELECT i.instance FROM instances i
  WHERE i.lane_id = l.lane_id AND (?1 IS NULL OR i.ended_at < ?1) AND i.execution > ?2 AND EXISTS (
    SELECT 1 FROM executions e
    WHERE e.lane_id = i.lane_id AND e.execution <> i.execution
      AND e.execution NOT IN (
        SELECT n.execution FROM executions n WHERE n.lane_id = i.lane_id ORDER BY n.execution DESC LIMIT ?2)
      AND (?3 IS NULL OR e.ended_at < ?3)))
FROM later l WHERE l.lane_id IS NOT NULL
