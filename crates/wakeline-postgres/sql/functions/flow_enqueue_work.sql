-- Stores work outside of a turn. Returns one row per tag and name: the time until it is available.
-- p_work_*: see flow_work_add. Lock order: the lane.

CREATE OR REPLACE FUNCTION @schema@.flow_enqueue_work(
    p_instance text, p_work_commands integer[], p_work_executions bigint[],
    p_work_activities bigint[], p_work_routes bigint[], p_work_sessions text[],
    p_work_afters bigint[], p_work_ats bigint[], p_work_bodies bytea[])
RETURNS TABLE (tag text, name text, due_us bigint)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
DECLARE
    v_lanes @schema@.flow_lanes[] := @schema@.flow_lock('{}', ARRAY[p_instance]);
    w record;
BEGIN
    SELECT x.* INTO w FROM @schema@.flow_work_add(p_work_commands, p_work_executions,
        p_work_activities, p_work_routes, p_work_sessions, p_work_afters, p_work_ats, p_work_bodies,
        '[]', ARRAY[v_lanes[1].lane_id], ARRAY[true], @schema@.clock()) AS x;
    RETURN QUERY SELECT x.tag, x.name, x.us
    FROM unnest(w.o_hint_tags, w.o_hint_names, w.o_hint_us) AS x (tag, name, us);
END
$$;
