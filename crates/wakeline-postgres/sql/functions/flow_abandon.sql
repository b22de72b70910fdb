-- Releases a leased turn or work: only what the lease holds becomes visible, after a delay. Returns
-- one row: whether the token was the last one that leased it; the capability, or the tag and the
-- name; and the time until something is due. Lock order: the lane, or the work.

CREATE OR REPLACE FUNCTION @schema@.flow_abandon(
    p_lane bigint, p_work bigint, p_key uuid, p_delay_us bigint, p_uncounted boolean,
    OUT o_held boolean, OUT o_what text, OUT o_name text, OUT o_due_us bigint)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_now timestamptz;
    v_at timestamptz;
    v_due timestamptz;
    l @schema@.flow_lanes;
    w record;
BEGIN
    o_held := false;
    IF p_work IS NULL THEN
        SELECT x.* INTO l FROM @schema@.flow_lanes x
        WHERE x.lane_id = p_lane AND x.lease_token = p_key FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        v_now := @schema@.clock();
        v_at := v_now + p_delay_us * interval '1 microsecond';
        UPDATE @schema@.flow_messages m SET visible_at = v_at,
            attempts = m.attempts + CASE WHEN p_uncounted THEN 0 ELSE 1 END
        WHERE m.lane_id = p_lane AND m.seq <= l.lease_seq AND m.visible_at <= l.lease_at;
        UPDATE @schema@.flow_lanes x SET lease_token = NULL, lease_until = NULL, lease_at = NULL,
            lease_seq = NULL, due_at = (
                SELECT m.visible_at FROM @schema@.flow_messages m
                WHERE m.lane_id = p_lane ORDER BY m.visible_at LIMIT 1)
        WHERE x.lane_id = p_lane RETURNING x.due_at INTO v_due;
        SELECT c.name INTO o_what FROM @schema@.flow_capabilities c
        WHERE c.capability_id = l.capability_id;
    ELSE
        SELECT x.tag_id, x.name_id INTO w FROM @schema@.flow_work x
        WHERE x.work_id = p_work AND x.lease_token = p_key FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        v_now := @schema@.clock();
        v_due := v_now + p_delay_us * interval '1 microsecond';
        UPDATE @schema@.flow_work x SET lease_token = NULL,
            attempts = greatest(x.attempts - CASE WHEN p_uncounted THEN 1 ELSE 0 END, 0),
            state = CASE WHEN v_due > v_now THEN 1 ELSE 0 END,
            due_at = v_due
        WHERE x.work_id = p_work;
        SELECT t.name INTO o_what FROM @schema@.flow_tags t WHERE t.tag_id = w.tag_id;
        SELECT n.name INTO o_name FROM @schema@.flow_activity_names n WHERE n.name_id = w.name_id;
    END IF;
    o_held := true;
    o_due_us := CASE WHEN v_due <= v_now THEN 0
        ELSE ceil(extract(epoch FROM v_due - v_now) * 1000000)::bigint END;
END
$$;
