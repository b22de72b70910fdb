-- Removes the rows that deleted lanes and executions left, at most about p_rows, and the notes of
-- those of which nothing is left. Runs under the locks of the notes. Lock order: work. No other
-- transaction can find the lanes any more.

CREATE OR REPLACE FUNCTION @schema@.flow_erase(
    p_notes bigint[], p_lanes bigint[], p_rows bigint,
    OUT o_executions bigint, OUT o_events bigint, OUT o_messages bigint)
LANGUAGE plpgsql AS $$
DECLARE
    v_left bigint := p_rows;
    v_gone bigint;
BEGIN
    o_executions := 0; o_events := 0;
    o_messages := @schema@.flow_work_remove(ARRAY(
        SELECT w.work_id FROM @schema@.flow_work w WHERE w.lane_id = ANY (p_lanes) LIMIT v_left));
    v_left := v_left - o_messages;
    DELETE FROM @schema@.flow_messages m USING (
        SELECT k.lane_id, k.seq FROM @schema@.flow_messages k WHERE k.lane_id = ANY (p_lanes)
        LIMIT v_left) x
    WHERE m.lane_id = x.lane_id AND m.seq = x.seq;
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    o_messages := o_messages + v_gone;
    v_left := v_left - v_gone;
    DELETE FROM @schema@.flow_kv k USING (
        SELECT x.lane_id, x.key FROM @schema@.flow_kv x WHERE x.lane_id = ANY (p_lanes)
        LIMIT v_left) x
    WHERE k.lane_id = x.lane_id AND k.key = x.key;
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    v_left := v_left - v_gone;
    DELETE FROM @schema@.flow_kv_delta k USING (
        SELECT x.lane_id, x.key FROM @schema@.flow_kv_delta x WHERE x.lane_id = ANY (p_lanes)
        LIMIT v_left) x
    WHERE k.lane_id = x.lane_id AND k.key = x.key;
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    v_left := v_left - v_gone;
    v_left := v_left - @schema@.flow_erase_history(p_notes, v_left);
    WITH gone AS (
        DELETE FROM @schema@.flow_executions e USING (
            SELECT x.lane_id, x.execution FROM @schema@.flow_executions x
            WHERE x.lane_id = ANY (p_lanes) LIMIT v_left) x
        WHERE e.lane_id = x.lane_id AND e.execution = x.execution
        RETURNING e.last_event)
    SELECT count(*), coalesce(sum(g.last_event), 0) INTO o_executions, o_events FROM gone g;
    IF v_left > o_executions THEN
        DELETE FROM @schema@.flow_leftovers k WHERE k.leftover_id = ANY (p_notes);
    END IF;
END
$$;
