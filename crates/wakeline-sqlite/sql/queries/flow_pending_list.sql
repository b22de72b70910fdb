-- A page of pending instances, newest first, after the position (?6, ?7). Columns as in
-- flow_instance_detail.sql. Uses the index lanes_pending.
SELECT l.lane_id, l.instance, substr(c.name, 1, instr(c.name || '@', '@') - 1) AS name,
       l.parent, 0 AS parent_event, 0 AS execution, 'pending' AS state, NULL AS status, 0 AS status_version,
       0 AS kv_version, l.started_at, l.started_at AS updated_at, NULL AS ended_at, NULL AS output, l.capability_id,
       l.suspended, l.reason, NULL AS version
FROM lanes l INDEXED BY lanes_pending
CROSS JOIN capabilities c ON c.capability_id = l.capability_id
WHERE (?1 IS NULL OR substr(c.name, 1, instr(c.name || '@', '@') - 1) = ?1)
  AND (?2 IS NULL OR (l.suspended IS NOT NULL) = ?2)
  AND (?3 IS NULL OR substr(l.instance, 1, length(?3)) = ?3)
  AND l.started_at >= ?4 AND l.started_at < ?5 AND (l.started_at, l.instance) < (?6, ?7)
  AND EXISTS (SELECT 1 FROM lane_messages m WHERE m.lane_id = l.lane_id AND m.starts = 1)
ORDER BY l.started_at DESC, l.instance DESC LIMIT ?8
