-- A lane, with the state of its instance.
SELECT l.lane_id, l.instance, l.capability_id, l.due_at, l.next_seq, l.lease_key, l.lease_until, l.lease_at,
       l.lease_seq, l.suspended, l.reason, l.watched, i.state, l.started_at, l.parent
FROM lanes l LEFT JOIN instances i ON i.lane_id = l.lane_id WHERE l.lane_id = ?1
