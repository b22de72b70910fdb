-- An instance and all below it, parents before children, generation by generation.
-- Called by: FlowReader::tree, flow_doomed, flow_delete_matching. Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_tree(
    p_instance text, OUT o_lanes bigint[], OUT o_instances text[])
LANGUAGE plpgsql STABLE AS $$
DECLARE
    i integer := 1;
    c record;
BEGIN
    SELECT ARRAY[x.lane_id], ARRAY[x.instance] INTO o_lanes, o_instances
    FROM @schema@.flow_lanes l JOIN @schema@.flow_instances x ON x.lane_id = l.lane_id
    WHERE l.instance = p_instance;
    o_lanes := coalesce(o_lanes, '{}'); o_instances := coalesce(o_instances, '{}');
    WHILE i <= cardinality(o_lanes) LOOP
        FOR c IN SELECT x.lane_id, x.instance FROM @schema@.flow_instances x
            WHERE x.parent = o_instances[i] AND x.lane_id <> ALL (o_lanes) ORDER BY x.lane_id
        LOOP
            o_lanes := o_lanes || c.lane_id; o_instances := o_instances || c.instance;
        END LOOP;
        i := i + 1;
    END LOOP;
END
$$;
