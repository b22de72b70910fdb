-- Deletes instances with all below them. Without p_force nothing is deleted if one of them has not
-- ended (o_running), or one of those named has a parent that stays (o_orphans).
-- Called by: FlowAdmin::delete_instances. Lock order: lanes, work.

CREATE OR REPLACE FUNCTION @schema@.flow_delete(
    p_instances text[], p_force boolean,
    OUT o_count bigint, OUT o_executions bigint, OUT o_events bigint, OUT o_messages bigint,
    OUT o_running text[], OUT o_orphans text[])
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
DECLARE
    d record;
    e record;
    v_again bigint[];
BEGIN
    o_count := 0; o_executions := 0; o_events := 0; o_messages := 0;
    o_running := '{}'; o_orphans := '{}';
    SELECT x.* INTO d FROM @schema@.flow_doomed(p_instances) AS x;
    IF d.o_lanes = '{}' THEN
        RETURN;
    END IF;
    PERFORM @schema@.flow_lock(d.o_lanes, '{}');
    SELECT x.o_lanes INTO v_again FROM @schema@.flow_doomed(p_instances) AS x;
    IF v_again <> d.o_lanes THEN
        -- The family has changed while we waited.
        RAISE EXCEPTION 'a lane has changed' USING ERRCODE = 'serialization_failure';
    END IF;
    IF NOT p_force THEN
        o_running := ARRAY(
            SELECT x.name
            FROM unnest(d.o_lanes, d.o_instances) WITH ORDINALITY AS x (lane, name, ord)
            JOIN @schema@.flow_lanes l ON l.lane_id = x.lane
            WHERE l.phase < 2 ORDER BY x.ord);
        o_orphans := ARRAY(
            SELECT x.name FROM unnest(p_instances) WITH ORDINALITY AS x (name, ord)
            JOIN @schema@.flow_lanes l ON l.instance = x.name
            JOIN @schema@.flow_instances i ON i.lane_id = l.lane_id
            JOIN @schema@.flow_lanes pl ON pl.instance = i.parent AND pl.phase > 0
            WHERE pl.lane_id <> ALL (d.o_lanes) ORDER BY x.ord);
        IF o_running <> '{}' OR o_orphans <> '{}' THEN
            RETURN;
        END IF;
    END IF;
    SELECT x.* INTO e FROM @schema@.flow_erase(d.o_lanes) AS x;
    o_count := cardinality(d.o_lanes);
    o_executions := e.o_executions; o_events := e.o_events; o_messages := e.o_messages;
END
$$;
