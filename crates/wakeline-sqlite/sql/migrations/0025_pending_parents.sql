-- Pending instances know who waits for them, so that lists show it and a deletion of the parent takes them along.

-- Who sent the first start and waits; NULL where started_at is.
ALTER TABLE lanes ADD COLUMN parent TEXT;

-- When its first start arrived, which may be long before its first turn; NULL: before this was kept.
ALTER TABLE instances ADD COLUMN started_at INTEGER;

CREATE INDEX lanes_parent ON lanes (parent, lane_id) WHERE parent IS NOT NULL;
