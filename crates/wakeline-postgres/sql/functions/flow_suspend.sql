-- Suspends an instance, given by its name or by the lease of its turn. Its lease ends; the attempt
-- of a live lease does not count. Returns false if the instance does not exist, has ended or is
-- suspended already, or if the lease has ended. Lock order: the lane.

CREATE OR REPLACE FUNCTION @schema@.flow_suspend(
    p_instance text, p_lane bigint, p_key uuid, p_kind text, p_reason text)
RETURNS boolean
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
DECLARE
    l @schema@.flow_lanes;
    v_now timestamptz;
BEGIN
    IF p_lane IS NULL THEN
        SELECT x.* INTO l FROM @schema@.flow_lanes x
        WHERE x.instance = p_instance FOR NO KEY UPDATE;
    ELSE
        SELECT x.* INTO l FROM @schema@.flow_lanes x
        WHERE x.lane_id = p_lane AND x.lease_token = p_key FOR NO KEY UPDATE;
    END IF;
    v_now := @schema@.clock();
    IF l.lane_id IS NULL OR l.suspended IS NOT NULL OR l.phase = 2
        OR (p_lane IS NOT NULL AND l.lease_until <= v_now)
        OR (l.phase = 0 AND NOT EXISTS (
            SELECT FROM @schema@.flow_messages m WHERE m.lane_id = l.lane_id AND m.starts))
    THEN
        RETURN false;
    END IF;
    IF l.lease_until <= v_now THEN
        UPDATE @schema@.flow_messages m SET attempts = m.attempts + 1
        WHERE m.lane_id = l.lane_id AND m.seq <= l.lease_seq AND m.visible_at <= l.lease_at;
    END IF;
    UPDATE @schema@.flow_lanes x SET suspended = p_kind, reason = p_reason, due_at = NULL,
        lease_token = NULL, lease_until = NULL, lease_at = NULL, lease_seq = NULL
    WHERE x.lane_id = l.lane_id;
    RETURN true;
END
$$;
