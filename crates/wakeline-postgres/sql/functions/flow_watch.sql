-- Records that a waiter watches the outcome of some instances, so that their next change is hinted
-- to all nodes, and then reads them, in order: an earlier change is read, a later one is hinted.
-- Instances that have ended are only read. Columns: as of the query flow_instances. A crash may
-- lose these records, which costs hints: the commit does not wait for the disk. Lock order: lanes
-- by id.

CREATE OR REPLACE FUNCTION @schema@.flow_watch(p_instances text[])
RETURNS TABLE (
    o_phase smallint, o_starts boolean, o_instance text, o_name text, o_version text,
    o_capability text, o_state text, o_suspended text, o_output bytea, o_status text,
    o_status_version bigint, o_kv_version bigint, o_execution bigint, o_parent text,
    o_created_at timestamptz, o_updated_at timestamptz, o_ended_at timestamptz)
LANGUAGE plpgsql ROWS 2
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
DECLARE
    v_lanes bigint[] := ARRAY(
        SELECT l.lane_id FROM @schema@.flow_lanes l
        WHERE l.instance = ANY (p_instances) AND NOT l.watched AND l.phase <> 2
        ORDER BY l.lane_id FOR NO KEY UPDATE);
BEGIN
    IF v_lanes <> '{}' THEN
        PERFORM set_config('synchronous_commit', 'off', true);
        UPDATE @schema@.flow_lanes l SET watched = true WHERE l.lane_id = ANY (v_lanes);
    END IF;
    RETURN QUERY
    SELECT coalesce(l.phase, 0::smallint), EXISTS (
            SELECT FROM @schema@.flow_messages m WHERE m.lane_id = l.lane_id AND m.starts),
        l.instance, coalesce(i.name, split_part(c.name, '@', 1)), nullif(e.version, ''), c.name,
        coalesce(i.state, 'pending'),
        CASE WHEN l.suspended IS NOT NULL THEN coalesce(l.reason, '') END,
        CASE WHEN i.ended_at IS NOT NULL THEN e.output END, i.status,
        coalesce(i.status_version, 0), coalesce(i.kv_version, 0), coalesce(i.execution, 0),
        CASE WHEN i.lane_id IS NULL THEN l.parent ELSE i.parent END,
        coalesce(i.created_at, l.started_at, @schema@.clock()),
        coalesce(i.updated_at, l.started_at, @schema@.clock()),
        i.ended_at
    FROM unnest(p_instances) WITH ORDINALITY AS n (instance, ord)
    LEFT JOIN @schema@.flow_lanes l ON l.instance = n.instance
    LEFT JOIN @schema@.flow_instances i ON i.lane_id = l.lane_id
    LEFT JOIN @schema@.flow_executions e ON e.lane_id = i.lane_id AND e.execution = i.execution
    LEFT JOIN @schema@.flow_capabilities c ON c.capability_id = l.capability_id
    ORDER BY n.ord;
END
$$;
