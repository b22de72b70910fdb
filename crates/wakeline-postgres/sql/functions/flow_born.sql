-- Leases turns that a write has made available to the dispatchers that came along with it, if
-- nothing older that they may take is available. The lanes are not written: see flow_save. So the
-- table still says what was available before the write. p_fresh: indexes of lanes in p_lanes that
-- got something, in order; p_fresh_commands: by which command each did. p_requests: an array of
-- objects. c: the number of the command; r: the request's index within it; lease: microseconds;
-- caps: numbers, null for any.
-- Called by: flow_enqueue, flow_commit, flow_complete, under the lanes' locks, before flow_save.

CREATE OR REPLACE FUNCTION @schema@.flow_born(
    p_lanes @schema@.flow_lanes[], p_fresh integer[], p_fresh_commands integer[],
    p_requests jsonb, p_ok boolean[], p_now timestamptz,
    OUT o_lanes @schema@.flow_lanes[], OUT o_ids bigint[], OUT o_commands integer[],
    OUT o_requests integer[])
LANGUAGE plpgsql AS $$
DECLARE
    r record;
    i integer;
    v_caps integer[];
    v_known jsonb := '0';
    v_older boolean;
    v_ids bigint[];
    v_seq bigint;
BEGIN
    o_lanes := p_lanes; o_ids := '{}'; o_commands := '{}'; o_requests := '{}';
    IF p_fresh = '{}' OR p_requests = '[]' THEN
        RETURN;
    END IF;
    v_ids := ARRAY(SELECT x.lane_id FROM unnest(p_lanes) AS x);
    FOR r IN SELECT x.* FROM jsonb_to_recordset(p_requests)
        AS x (c integer, r integer, key uuid, lease bigint, caps jsonb)
    LOOP
        CONTINUE WHEN NOT p_ok[r.c];
        IF v_known IS DISTINCT FROM r.caps THEN
            v_known := r.caps;
            v_caps := @schema@.flow_capabilities_of(r.caps);
            v_older := EXISTS (
                SELECT FROM unnest(v_caps) AS x (capability_id)
                CROSS JOIN LATERAL (
                    SELECT FROM @schema@.flow_lanes f
                    WHERE f.capability_id = x.capability_id AND f.due_at <= p_now
                    LIMIT 1) f);
        END IF;
        CONTINUE WHEN v_older;
        FOR j IN 1 .. cardinality(p_fresh) LOOP
            i := p_fresh[j];
            CONTINUE WHEN o_lanes[i].lease_token IS NOT NULL OR o_lanes[i].due_at > p_now
                OR o_lanes[i].capability_id <> ALL (v_caps);
            -- Of an earlier command: older. Of a later one: not there yet.
            EXIT WHEN p_fresh_commands[j] <> r.c;
            v_seq := @schema@.flow_pick(v_ids[i], p_now);
            CONTINUE WHEN v_seq IS NULL;
            o_lanes[i].lease_token := r.key;
            o_lanes[i].lease_until := p_now + r.lease * interval '1 microsecond';
            o_lanes[i].due_at := o_lanes[i].lease_until;
            o_lanes[i].lease_at := p_now;
            o_lanes[i].lease_seq := v_seq;
            o_ids := o_ids || v_ids[i]; o_commands := o_commands || r.c;
            o_requests := o_requests || r.r;
            EXIT;
        END LOOP;
    END LOOP;
END
$$;
