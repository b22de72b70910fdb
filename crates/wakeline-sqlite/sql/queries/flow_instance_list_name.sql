-- A page of instances of one orchestration (?1 is given), newest first, after the position (?8,
-- ?9). Uses the index instances_name.
SELECT i.lane_id, i.instance, i.name, i.parent, i.parent_event, i.execution, i.state, i.status, i.status_version,
       i.kv_version, i.created_at, i.updated_at, i.ended_at, i.output, l.capability_id, l.suspended, l.reason, e.version
FROM instances i INDEXED BY instances_name
CROSS JOIN lanes l ON l.lane_id = i.lane_id
LEFT JOIN executions e ON e.lane_id = i.lane_id AND e.execution = i.execution
WHERE i.name = ?1 AND (?2 IS NULL OR instr(?2, i.state) > 0)
  AND (?3 IS NULL OR (l.suspended IS NOT NULL) = ?3)
  AND (?4 IS NULL OR substr(i.instance, 1, length(?4)) = ?4)
  AND (?5 IS NULL OR i.parent = ?5)
  AND i.created_at >= ?6 AND i.created_at < ?7 AND (i.created_at, i.instance) < (?8, ?9)
ORDER BY i.created_at DESC, i.instance DESC LIMIT ?10
