-- A pending instance as readers see it. Columns as in flow_instance_detail.sql.
SELECT l.lane_id, l.instance, substr(c.name, 1, instr(c.name || '@', '@') - 1) AS name,
       l.parent, 0 AS parent_event, 0 AS execution, 'pending' AS state, NULL AS status, 0 AS status_version,
       0 AS kv_version, l.started_at, l.started_at AS updated_at, NULL AS ended_at, NULL AS output, l.capability_id,
       l.suspended, l.reason, NULL AS version
FROM lanes l
JOIN capabilities c ON c.capability_id = l.capability_id
WHERE l.instance = ?1 AND l.started_at IS NOT NULL
  AND EXISTS (SELECT 1 FROM lane_messages m WHERE m.lane_id = l.lane_id AND m.starts = 1)
