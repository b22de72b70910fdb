-- Returns those of some instances whose parent exists and is neither one of them nor a descendant
-- of one of them. Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_orphans(p_instances text[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    n text;
    v_above text[];
    v_parent text;
    v_orphans text[] := '{}';
BEGIN
    FOREACH n IN ARRAY p_instances LOOP
        v_above := ARRAY[n];
        LOOP
            -- An instance may be its own ancestor.
            v_parent := (SELECT i.parent FROM @schema@.flow_lanes l
                JOIN @schema@.flow_instances i ON i.lane_id = l.lane_id
                WHERE l.instance = v_above[cardinality(v_above)]);
            EXIT WHEN v_parent IS NULL OR v_parent = ANY (v_above) OR v_parent = ANY (p_instances)
                OR NOT EXISTS (SELECT FROM @schema@.flow_lanes l
                    WHERE l.instance = v_parent AND l.phase > 0);
            v_above := v_above || v_parent;
        END LOOP;
        IF cardinality(v_above) > 1
            AND (v_parent IS NULL OR v_parent <> ALL (p_instances))
        THEN
            v_orphans := v_orphans || n;
        END IF;
    END LOOP;
    RETURN v_orphans;
END
$$;
