-- Up to ?5 old executions of an instance: none of the newest ?2, not the current one (?3), and only
-- those that ended before ?4 if that is given.
SELECT execution, last_event FROM executions
WHERE lane_id = ?1 AND execution <> ?3
  AND execution NOT IN (SELECT n.execution FROM executions n WHERE n.lane_id = ?1 ORDER BY n.execution DESC LIMIT ?2)
  AND (?4 IS NULL OR ended_at < ?4)
LIMIT ?5
