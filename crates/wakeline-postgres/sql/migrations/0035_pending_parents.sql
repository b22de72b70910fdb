-- Pending instances know who waits for them, so that lists show it and a deletion of the parent takes
-- them along.

ALTER TABLE @schema@.flow_lanes ADD COLUMN parent text COLLATE "C";
COMMENT ON COLUMN @schema@.flow_lanes.parent IS
    'who sent the first start and waits, while its instance is pending';

CREATE INDEX flow_lanes_parent ON @schema@.flow_lanes (parent, lane_id)
    WHERE phase = 0 AND parent IS NOT NULL;

CREATE OR REPLACE VIEW @schema@.orchestrations AS
SELECT i.instance, i.name, i.state, e.version, c.name AS capability, i.execution, i.status,
    l.suspended, l.reason AS suspended_because, i.parent, e.last_event AS events, e.output,
    i.created_at, i.updated_at, i.ended_at, l.due_at, l.lease_until
FROM @schema@.flow_instances i
JOIN @schema@.flow_lanes l USING (lane_id)
LEFT JOIN @schema@.flow_executions e USING (lane_id, execution)
LEFT JOIN @schema@.flow_capabilities c USING (capability_id)
UNION ALL
SELECT l.instance, split_part(c.name, '@', 1), 'pending', NULL, c.name, 0, NULL,
    l.suspended, l.reason, l.parent, 0, NULL,
    l.started_at, l.started_at, NULL, l.due_at, l.lease_until
FROM @schema@.flow_lanes l
JOIN @schema@.flow_capabilities c USING (capability_id)
WHERE l.phase = 0 AND l.started_at IS NOT NULL AND EXISTS (
    SELECT FROM @schema@.flow_messages m WHERE m.lane_id = l.lane_id AND m.starts);
COMMENT ON VIEW @schema@.orchestrations IS
    'one row per instance of an orchestration; one that waits for its first turn is pending';
