-- Locks lanes; those of p_instances are created first if they are missing. Lanes of p_lanes that do
-- not exist (any more) are left out. Lock order: new lanes by name, then all lanes by id.

CREATE OR REPLACE FUNCTION @schema@.flow_lock(
    p_lanes bigint[], p_instances text[], OUT o_lanes @schema@.flow_lanes[])
LANGUAGE plpgsql AS $$
DECLARE
    v_names text[];
    v_ids bigint[];
    v_named bigint[] := '{}';
    v_found bigint;
BEGIN
    IF p_instances <> '{}' THEN
        SELECT array_agg(x.name ORDER BY x.ord) INTO v_names FROM (
            SELECT n.name, min(n.ord) AS ord FROM unnest(p_instances) WITH ORDINALITY
                AS n (name, ord) GROUP BY n.name) x;
        v_named := ARRAY(
            SELECT l.lane_id FROM @schema@.flow_lanes l WHERE l.instance = ANY (v_names));
        IF cardinality(v_named) < cardinality(v_names) THEN
            -- Numbered in the order in which they are given, inserted in the order of their names.
            v_names := ARRAY(SELECT n.name FROM unnest(v_names) WITH ORDINALITY AS n (name, ord)
                WHERE NOT EXISTS (SELECT FROM @schema@.flow_lanes l WHERE l.instance = n.name)
                ORDER BY n.ord);
            v_ids := ARRAY(SELECT nextval('@schema@.flow_lanes_lane_id_seq')
                FROM generate_series(1, cardinality(v_names)));
            INSERT INTO @schema@.flow_lanes (lane_id, instance)
            OVERRIDING SYSTEM VALUE
            SELECT n.id, n.name FROM unnest(v_ids, v_names) AS n (id, name)
            ORDER BY n.name COLLATE "C"
            ON CONFLICT (instance) DO NOTHING;
            v_names := ARRAY(SELECT DISTINCT n FROM unnest(p_instances) AS n);
            v_named := ARRAY(
                SELECT l.lane_id FROM @schema@.flow_lanes l WHERE l.instance = ANY (v_names));
        END IF;
    END IF;
    SELECT coalesce(array_agg(x.lane), '{}'), count(*) FILTER (WHERE x.lane_id = ANY (v_named))
    INTO o_lanes, v_found
    FROM (
        SELECT l AS lane, l.lane_id FROM @schema@.flow_lanes l
        WHERE l.lane_id = ANY (p_lanes || v_named)
        ORDER BY l.lane_id
        FOR NO KEY UPDATE
    ) x;
    IF v_found < coalesce(cardinality(v_names), 0) THEN
        -- The lane was deleted while this waited for its lock. The call is repeated and creates it
        -- again.
        RAISE EXCEPTION 'a lane has gone' USING ERRCODE = 'serialization_failure';
    END IF;
END
$$;
