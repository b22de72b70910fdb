-- Removes the rows by which lanes and their instances are found, and records what remains of them.
-- Their work is removed at once, unless there is very much, so that it is not claimed any more.
-- o_watched: the instances that waiters watched. Runs under the lanes' locks. Lock order: work.

CREATE OR REPLACE FUNCTION @schema@.flow_unlink(
    p_lanes bigint[], p_deletion uuid, p_now timestamptz,
    OUT o_count bigint, OUT o_messages bigint, OUT o_watched text[])
LANGUAGE plpgsql AS $$
BEGIN
    o_messages := @schema@.flow_work_remove(ARRAY(
        SELECT w.work_id FROM @schema@.flow_work w WHERE w.lane_id = ANY (p_lanes) LIMIT 10000));
    INSERT INTO @schema@.flow_leftovers (deletion, lane_id, parent, deleted_at, due_at)
    SELECT p_deletion, l.lane_id, CASE WHEN EXISTS (
            SELECT FROM @schema@.flow_instances c WHERE c.parent = l.instance) OR EXISTS (
            SELECT FROM @schema@.flow_lanes c
            WHERE c.parent = l.instance AND c.phase = 0) THEN l.instance END,
        p_now, p_now + interval '1 minute'
    FROM @schema@.flow_lanes l WHERE l.lane_id = ANY (p_lanes) ORDER BY l.lane_id;
    DELETE FROM @schema@.flow_instances i WHERE i.lane_id = ANY (p_lanes);
    WITH gone AS (
        DELETE FROM @schema@.flow_lanes l WHERE l.lane_id = ANY (p_lanes)
        RETURNING l.instance, l.watched)
    SELECT count(*), coalesce(array_agg(g.instance) FILTER (WHERE g.watched), '{}')
    INTO o_count, o_watched FROM gone g;
END
$$;
