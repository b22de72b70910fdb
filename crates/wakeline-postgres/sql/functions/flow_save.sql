-- Writes changed lanes: one update for all of a call. Runs under their locks.

CREATE OR REPLACE FUNCTION @schema@.flow_save(p_lanes @schema@.flow_lanes[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE @schema@.flow_lanes l SET capability_id = x.capability_id, due_at = x.due_at,
        next_seq = x.next_seq, phase = x.phase, lease_token = x.lease_token,
        lease_until = x.lease_until, lease_at = x.lease_at, lease_seq = x.lease_seq,
        suspended = x.suspended, reason = x.reason, watched = x.watched,
        started_at = x.started_at, parent = x.parent
    FROM unnest(p_lanes) AS x
    WHERE l.lane_id = x.lane_id
        AND (l.capability_id, l.due_at, l.next_seq, l.phase, l.lease_token, l.lease_until,
            l.lease_at, l.lease_seq, l.suspended, l.reason, l.watched, l.started_at,
            l.parent)
        IS DISTINCT FROM (x.capability_id, x.due_at, x.next_seq, x.phase, x.lease_token,
            x.lease_until, x.lease_at, x.lease_seq, x.suspended, x.reason, x.watched,
            x.started_at, x.parent);
END
$$;
