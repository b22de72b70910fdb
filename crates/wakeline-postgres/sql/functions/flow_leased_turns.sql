-- Returns leased turns with all that they need, one row each. The history is included if it has at
-- most 32 kB; a longer one is not read. It runs after the lanes were written, in a query over their
-- rows. It is VOLATILE although it only reads, so that it sees what was written earlier in the same
-- statement.

CREATE OR REPLACE FUNCTION @schema@.flow_leased_turns(
    p_lanes bigint[], p_commands integer[], p_requests integer[], p_now timestamptz)
RETURNS TABLE (
    o_command integer, o_request integer, o_lane bigint, o_token uuid, o_instance text, o_name text,
    o_parent text, o_parent_event bigint, o_capability text, o_execution bigint,
    o_last_event bigint, o_state text, o_seqs bigint[], o_attempts integer[], o_payloads bytea[],
    o_whole boolean, o_firsts bigint[], o_lasts bigint[], o_events bytea[], o_keys text[],
    o_values bytea[], o_executions bigint[], o_ats timestamptz[], o_now timestamptz,
    o_lease_us bigint)
LANGUAGE plpgsql STRICT ROWS 2
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
BEGIN
    RETURN QUERY
    SELECT x.command, x.request, l.lane_id, l.lease_token, l.instance, i.name, i.parent,
        i.parent_event, c.name, i.execution, e.last_event, e.state, m.seqs, m.attempts, m.payloads,
        coalesce(e.history_bytes, 0) <= 32768, h.firsts, h.lasts, h.events,
        k.keys, k.vals, k.executions, k.ats, p_now,
        (extract(epoch FROM l.lease_until - p_now) * 1000000)::bigint
    FROM unnest(p_lanes, p_commands, p_requests) AS x (lane, command, request)
    JOIN @schema@.flow_lanes l ON l.lane_id = x.lane
    LEFT JOIN @schema@.flow_capabilities c ON c.capability_id = l.capability_id
    LEFT JOIN @schema@.flow_instances i ON i.lane_id = l.lane_id
    LEFT JOIN @schema@.flow_executions e ON e.lane_id = i.lane_id AND e.execution = i.execution
    CROSS JOIN LATERAL (
        SELECT array_agg(f.seq) AS seqs, array_agg(f.attempts + 1) AS attempts,
            array_agg(f.payload) AS payloads
        FROM (
            SELECT f.seq, f.attempts, f.payload FROM @schema@.flow_messages f
            WHERE f.lane_id = l.lane_id AND f.seq <= l.lease_seq AND f.visible_at <= l.lease_at
            ORDER BY f.seq
        ) f
    ) m
    LEFT JOIN LATERAL (
        SELECT array_agg(f.first_event) AS firsts, array_agg(f.last_event) AS lasts,
            array_agg(f.events) AS events
        FROM (
            -- The limit is inside this subquery: a condition of the join would be checked after
            -- reading the rows.
            SELECT f.first_event, f.last_event, f.events FROM @schema@.flow_history f
            WHERE e.history_bytes <= 32768 AND f.lane_id = e.lane_id
                AND f.execution = e.execution ORDER BY f.first_event
        ) f
    ) h ON true
    LEFT JOIN LATERAL (
        SELECT array_agg(f.key) AS keys, array_agg(f.value) AS vals,
            array_agg(f.execution) AS executions, array_agg(f.updated_at) AS ats
        FROM (
            SELECT f.key, f.value, f.execution, f.updated_at FROM @schema@.flow_kv f
            WHERE i.kv_version > 0 AND f.lane_id = i.lane_id ORDER BY f.key
        ) f
    ) k ON true;
END
$$;
