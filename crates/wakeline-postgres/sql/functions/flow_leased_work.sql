-- Returns leased work with all that it needs, one row each. It runs after the work was written, in
-- a query over its rows. It is VOLATILE although it only reads, so that it sees what was written
-- earlier in the same statement.

CREATE OR REPLACE FUNCTION @schema@.flow_leased_work(
    p_works bigint[], p_commands integer[], p_requests integer[], p_now timestamptz)
RETURNS TABLE (
    o_command integer, o_request integer, o_work bigint, o_lane bigint, o_token uuid,
    o_attempt integer, o_instance text, o_execution bigint, o_activity bigint, o_name text,
    o_tag text, o_session text, o_payload bytea, o_state text, o_lease_us bigint)
LANGUAGE plpgsql STRICT ROWS 2
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
BEGIN
    RETURN QUERY
    SELECT x.command, x.request, w.work_id, w.lane_id, w.lease_token, w.attempts, l.instance,
        w.execution, w.activity, n.name, t.name, w.session, b.payload, e.state,
        (extract(epoch FROM w.due_at - p_now) * 1000000)::bigint
    FROM unnest(p_works, p_commands, p_requests) AS x (work, command, request)
    JOIN @schema@.flow_work w ON w.work_id = x.work
    JOIN @schema@.flow_work_bodies b ON b.work_id = w.work_id
    JOIN @schema@.flow_lanes l ON l.lane_id = w.lane_id
    LEFT JOIN @schema@.flow_tags t ON t.tag_id = w.tag_id
    LEFT JOIN @schema@.flow_activity_names n ON n.name_id = w.name_id
    LEFT JOIN @schema@.flow_executions e
        ON e.lane_id = w.lane_id AND e.execution = w.execution;
END
$$;
