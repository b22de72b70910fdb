-- Continues a deletion with the children of the instances that it has already deleted: deletes at
-- most p_rows of them. o_found: the number of children that this call found; NULL if no deleted
-- instance has children left. o_count, o_messages, o_watched: see flow_unlink. Lock order:
-- leftovers, without waiting; lanes by id; work.

CREATE OR REPLACE FUNCTION @schema@.flow_delete_children(
    p_deletion uuid, p_rows integer,
    OUT o_found bigint, OUT o_count bigint, OUT o_messages bigint, OUT o_watched text[])
LANGUAGE plpgsql AS $$
DECLARE
    v_parent record;
    v_page bigint[];
    v_limit bigint;
    v_lanes bigint[];
BEGIN
    FOR v_parent IN
        SELECT x.* FROM @schema@.flow_leftovers x
        WHERE x.deletion = p_deletion AND x.parent IS NOT NULL
        ORDER BY x.leftover_id LIMIT 100 FOR UPDATE SKIP LOCKED
    LOOP
        v_limit := p_rows - coalesce(cardinality(v_lanes), 0);
        -- The parent's id may be in use again, by an instance that was started after the deletion.
        -- The children of that one were started later, too, so the times exclude them. A pending
        -- child with a second start message is not deleted either: another client has started it,
        -- and its first turn reports that the id already exists.
        v_page := ARRAY(
            (SELECT i.lane_id FROM @schema@.flow_instances i
            JOIN @schema@.flow_lanes l ON l.lane_id = i.lane_id
            WHERE i.parent = v_parent.parent AND i.lane_id > v_parent.after_lane
                AND least(l.started_at, i.created_at) <= v_parent.deleted_at
            ORDER BY i.lane_id LIMIT v_limit)
            UNION ALL
            (SELECT l.lane_id FROM @schema@.flow_lanes l
            WHERE (l.parent, l.lane_id) > (v_parent.parent, v_parent.after_lane)
                AND l.parent <= v_parent.parent
                AND l.phase = 0 AND l.started_at <= v_parent.deleted_at AND 1 = (
                    SELECT count(*) FROM (
                        SELECT FROM @schema@.flow_messages m
                        WHERE m.lane_id = l.lane_id AND m.starts LIMIT 2) x)
            ORDER BY l.parent, l.lane_id LIMIT v_limit)
            ORDER BY lane_id LIMIT v_limit);
        v_lanes := v_lanes || v_page;
        UPDATE @schema@.flow_leftovers x SET
            parent = CASE WHEN cardinality(v_lanes) >= p_rows THEN x.parent END,
            after_lane = coalesce(v_page[cardinality(v_page)], x.after_lane)
        WHERE x.leftover_id = v_parent.leftover_id;
        EXIT WHEN cardinality(v_lanes) >= p_rows;
    END LOOP;
    o_found := cardinality(v_lanes);
    v_lanes := ARRAY(
        SELECT l.lane_id FROM unnest(@schema@.flow_lock(coalesce(v_lanes, '{}'), '{}')) AS l);
    -- The clock is read only after the locks were taken. So the time of the deletion is later than
    -- that of every child which these lanes started while this call waited for their locks, and
    -- those children are deleted, too.
    SELECT x.* INTO o_count, o_messages, o_watched
    FROM @schema@.flow_unlink(v_lanes, p_deletion, @schema@.clock()) AS x;
END
$$;
