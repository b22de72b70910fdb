-- Removes old executions of some lanes, at most p_rows: all but the newest p_keep of each instance
-- and the current one, and of these only those that ended before p_before, if that is given. Their
-- history is removed by flow_clear. o_lanes: the lanes of which executions were removed. Lock
-- order: lanes.

CREATE OR REPLACE FUNCTION @schema@.flow_prune(
    p_lanes bigint[], p_keep bigint, p_before timestamptz, p_deletion uuid, p_rows integer,
    OUT o_executions bigint, OUT o_events bigint, OUT o_lanes bigint[])
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
DECLARE
    v_now timestamptz := @schema@.clock();
BEGIN
    PERFORM @schema@.flow_lock(p_lanes, '{}');
    WITH old AS (
        SELECT x.lane_id, x.execution FROM unnest(p_lanes) AS l (lane_id)
        CROSS JOIN LATERAL (
            SELECT e.lane_id, e.execution, e.ended_at FROM @schema@.flow_executions e
            WHERE e.lane_id = l.lane_id ORDER BY e.execution DESC OFFSET greatest(p_keep, 1)) x
        WHERE p_before IS NULL OR x.ended_at < p_before
        LIMIT p_rows
    ), gone AS (
        DELETE FROM @schema@.flow_executions e USING old
        WHERE e.lane_id = old.lane_id AND e.execution = old.execution
        RETURNING e.lane_id, e.execution, e.last_event
    ), noted AS (
        INSERT INTO @schema@.flow_leftovers (deletion, lane_id, execution, deleted_at, due_at)
        SELECT p_deletion, g.lane_id, g.execution, v_now, v_now + interval '1 minute' FROM gone g
    )
    SELECT count(*), coalesce(sum(g.last_event), 0), coalesce(array_agg(DISTINCT g.lane_id), '{}')
    INTO o_executions, o_events, o_lanes FROM gone g;
END
$$;
