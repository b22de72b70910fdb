-- Instances that were started and wait for their first turn become visible to readers.
--
-- A start writes one row of a lane as before, with one more column and one more index entry; the
-- entry goes when the first turn sets the phase. So lists walk pending instances in their order and
-- no other lanes.

ALTER TABLE @schema@.flow_lanes ADD COLUMN started_at timestamptz;
COMMENT ON COLUMN @schema@.flow_lanes.started_at IS
    'when the first start arrived; NULL while there are only early messages';

UPDATE @schema@.flow_lanes l SET started_at = now()
WHERE l.phase = 0 AND l.capability_id IS NOT NULL;

CREATE INDEX flow_lanes_pending ON @schema@.flow_lanes (started_at, instance)
    WHERE phase = 0 AND started_at IS NOT NULL;

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
    l.suspended, l.reason, NULL, 0, NULL,
    l.started_at, l.started_at, NULL, l.due_at, l.lease_until
FROM @schema@.flow_lanes l
JOIN @schema@.flow_capabilities c USING (capability_id)
WHERE l.phase = 0 AND l.started_at IS NOT NULL AND EXISTS (
    SELECT FROM @schema@.flow_messages m WHERE m.lane_id = l.lane_id AND m.starts);
COMMENT ON VIEW @schema@.orchestrations IS
    'one row per instance of an orchestration; one that waits for its first turn is pending';
