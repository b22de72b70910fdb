-- Instances that were started and wait for their first turn become visible to readers.

-- When the first start arrived; NULL while there are only early messages, and once there is an instance.
ALTER TABLE lanes ADD COLUMN started_at INTEGER;

UPDATE lanes SET started_at = unixepoch('now') * 1000000
WHERE capability_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM instances i WHERE i.lane_id = lanes.lane_id);

-- Lists walk pending instances in their order, and no other lanes.
CREATE INDEX lanes_pending ON lanes (started_at, instance) WHERE started_at IS NOT NULL;
