-- Removes lanes with everything that hangs on them.
-- Called by: flow_terminate, flow_delete, flow_delete_matching, under the lanes' locks. Lock
-- order: work.

CREATE OR REPLACE FUNCTION @schema@.flow_erase(
    p_lanes bigint[], OUT o_executions bigint, OUT o_events bigint, OUT o_messages bigint)
LANGUAGE plpgsql AS $$
DECLARE
    v_count bigint;
BEGIN
    o_messages := @schema@.flow_work_remove(ARRAY(
        SELECT w.work_id FROM @schema@.flow_work w WHERE w.lane_id = ANY (p_lanes)));
    DELETE FROM @schema@.flow_messages m WHERE m.lane_id = ANY (p_lanes);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    o_messages := o_messages + v_count;
    DELETE FROM @schema@.flow_history h WHERE h.lane_id = ANY (p_lanes);
    WITH gone AS (
        DELETE FROM @schema@.flow_executions e WHERE e.lane_id = ANY (p_lanes)
        RETURNING e.last_event)
    SELECT count(*), coalesce(sum(g.last_event), 0) INTO o_executions, o_events FROM gone g;
    DELETE FROM @schema@.flow_kv k WHERE k.lane_id = ANY (p_lanes);
    DELETE FROM @schema@.flow_kv_delta k WHERE k.lane_id = ANY (p_lanes);
    DELETE FROM @schema@.flow_instances i WHERE i.lane_id = ANY (p_lanes);
    DELETE FROM @schema@.flow_lanes l WHERE l.lane_id = ANY (p_lanes);
END
$$;
