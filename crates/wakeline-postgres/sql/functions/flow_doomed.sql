-- What a deletion of some instances takes with it: each with all below it, or just its lane if it
-- only waits for its first turn.
-- Called by: flow_delete. Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_doomed(
    p_instances text[], OUT o_lanes bigint[], OUT o_instances text[])
LANGUAGE plpgsql STABLE AS $$
DECLARE
    n text;
    t record;
BEGIN
    o_lanes := '{}'; o_instances := '{}';
    FOREACH n IN ARRAY p_instances LOOP
        SELECT x.* INTO t FROM @schema@.flow_tree(n) AS x;
        IF t.o_lanes = '{}' THEN
            SELECT ARRAY[l.lane_id] AS o_lanes, ARRAY[l.instance] AS o_instances INTO t
            FROM @schema@.flow_lanes l
            WHERE l.instance = n AND l.phase = 0 AND EXISTS (
                SELECT FROM @schema@.flow_messages m WHERE m.lane_id = l.lane_id AND m.starts);
            CONTINUE WHEN NOT FOUND;
        END IF;
        FOR i IN 1 .. cardinality(t.o_lanes) LOOP
            CONTINUE WHEN t.o_lanes[i] = ANY (o_lanes);
            o_lanes := o_lanes || t.o_lanes[i]; o_instances := o_instances || t.o_instances[i];
        END LOOP;
    END LOOP;
END
$$;
