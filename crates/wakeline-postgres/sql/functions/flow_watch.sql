-- Notes that somebody waits for the outcome of some instances: their next change is hinted to all
-- nodes.
-- Called by: FlowReader::watch, which reads afterwards. Lock order: lanes by id.

CREATE OR REPLACE FUNCTION @schema@.flow_watch(p_instances text[]) RETURNS void
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
DECLARE
    v_lanes bigint[] := ARRAY(
        SELECT l.lane_id FROM @schema@.flow_lanes l
        WHERE l.instance = ANY (p_instances) AND NOT l.watched
        ORDER BY l.lane_id FOR NO KEY UPDATE);
BEGIN
    IF v_lanes <> '{}' THEN
        UPDATE @schema@.flow_lanes l SET watched = true WHERE l.lane_id = ANY (v_lanes);
    END IF;
END
$$;
