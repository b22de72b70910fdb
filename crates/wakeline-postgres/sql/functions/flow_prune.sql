-- Removes executions that are not the current one, with their history: all but the newest p_keep
-- of each instance, and of these only those that ended before p_ended_before, if that is given.
-- Instances as in flow_delete_matching, but those that run as well, and only those of which something
-- goes: so a repeated call gets past the first p_limit.
-- Planned for its parameters each time: which of them are given decides which index serves.
-- Called by: FlowAdmin::prune. Lock order: lanes.

CREATE OR REPLACE FUNCTION @schema@.flow_prune(
    p_instances text[], p_before timestamptz, p_limit bigint, p_keep bigint,
    p_ended_before timestamptz,
    OUT o_count bigint, OUT o_executions bigint, OUT o_events bigint)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_custom_plan SET enable_seqscan = off AS $$
DECLARE
    v_lanes bigint[];
BEGIN
    v_lanes := ARRAY(
        SELECT i.lane_id FROM @schema@.flow_instances i
        WHERE (p_before IS NULL OR i.ended_at < p_before)
            AND (p_instances IS NULL OR i.instance = ANY (p_instances))
            AND i.execution > greatest(p_keep, 1)
            AND EXISTS (
                SELECT FROM (
                    SELECT e.ended_at FROM @schema@.flow_executions e
                    WHERE e.lane_id = i.lane_id ORDER BY e.execution DESC
                    OFFSET greatest(p_keep, 1)) e
                WHERE p_ended_before IS NULL OR e.ended_at < p_ended_before)
        ORDER BY i.ended_at NULLS FIRST, i.instance LIMIT p_limit);
    o_count := cardinality(v_lanes);
    PERFORM @schema@.flow_lock(v_lanes, '{}');
    WITH old AS (
        SELECT x.lane_id, x.execution FROM unnest(v_lanes) AS l (lane_id)
        CROSS JOIN LATERAL (
            SELECT e.lane_id, e.execution, e.ended_at FROM @schema@.flow_executions e
            WHERE e.lane_id = l.lane_id ORDER BY e.execution DESC OFFSET greatest(p_keep, 1)) x
        WHERE p_ended_before IS NULL OR x.ended_at < p_ended_before
    ), events AS (
        DELETE FROM @schema@.flow_history h USING old
        WHERE h.lane_id = old.lane_id AND h.execution = old.execution
    ), gone AS (
        DELETE FROM @schema@.flow_executions e USING old
        WHERE e.lane_id = old.lane_id AND e.execution = old.execution
        RETURNING e.last_event
    )
    SELECT count(*), coalesce(sum(g.last_event), 0) INTO o_executions, o_events FROM gone g;
END
$$;
