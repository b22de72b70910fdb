-- Deletes instances, and begins to delete their descendants: see flow_clear. Without p_force
-- nothing is deleted if one of them has not ended (o_running) or has a parent that stays
-- (o_orphans); the caller checks that all descendants have ended. With p_force, messages that wait
-- for an instance that was never started are deleted too. p_rows: see flow_clear; 0 to delete
-- nothing. Lock order: lanes; then see flow_clear.

CREATE OR REPLACE FUNCTION @schema@.flow_delete(
    p_instances text[], p_force boolean, p_deletion uuid, p_rows integer,
    OUT o_count bigint, OUT o_executions bigint, OUT o_events bigint, OUT o_messages bigint,
    OUT o_watched text[], OUT o_more boolean, OUT o_running text[], OUT o_orphans text[])
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
DECLARE
    v_lanes @schema@.flow_lanes[];
    c record;
BEGIN
    o_count := 0; o_executions := 0; o_events := 0; o_messages := 0; o_watched := '{}';
    o_more := false; o_running := '{}'; o_orphans := '{}';
    v_lanes := @schema@.flow_lock(ARRAY(
        SELECT l.lane_id FROM @schema@.flow_lanes l
        WHERE l.instance = ANY (p_instances) AND (l.phase > 0 OR EXISTS (
            SELECT FROM @schema@.flow_messages m
            WHERE m.lane_id = l.lane_id AND (m.starts OR p_force)))), '{}');
    IF NOT p_force THEN
        o_running := ARRAY(SELECT l.instance FROM unnest(v_lanes) AS l WHERE l.phase < 2);
        o_orphans := @schema@.flow_orphans(
            ARRAY(SELECT l.instance FROM unnest(v_lanes) AS l));
        IF o_running <> '{}' OR o_orphans <> '{}' OR p_rows = 0 THEN
            RETURN;
        END IF;
    END IF;
    SELECT x.* INTO o_count, o_messages, o_watched FROM @schema@.flow_unlink(
        ARRAY(SELECT l.lane_id FROM unnest(v_lanes) AS l), p_deletion, @schema@.clock()) AS x;
    -- Small deletions are completed at once.
    o_more := o_count > 0;
    FOR i IN 1 .. 4 LOOP
        EXIT WHEN NOT o_more;
        SELECT x.* INTO c FROM @schema@.flow_clear(p_deletion, p_rows) AS x;
        o_count := o_count + c.o_count; o_executions := o_executions + c.o_executions;
        o_events := o_events + c.o_events; o_messages := o_messages + c.o_messages;
        o_watched := o_watched || c.o_watched; o_more := c.o_more;
    END LOOP;
END
$$;
