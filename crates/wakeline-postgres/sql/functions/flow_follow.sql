-- Deletes children of the instances that a deletion has deleted before, at most p_rows. o_found:
-- how many were read; NULL if no instance has children left. Lock order: leftovers, without
-- waiting; lanes by id; work.

CREATE OR REPLACE FUNCTION @schema@.flow_follow(
    p_deletion uuid, p_rows integer,
    OUT o_found bigint, OUT o_count bigint, OUT o_messages bigint, OUT o_watched text[])
LANGUAGE plpgsql AS $$
DECLARE
    k record;
    v_page bigint[];
    v_left bigint;
    v_lanes bigint[];
BEGIN
    FOR k IN
        SELECT x.* FROM @schema@.flow_leftovers x
        WHERE x.deletion = p_deletion AND x.parent IS NOT NULL
        ORDER BY x.leftover_id LIMIT 100 FOR UPDATE SKIP LOCKED
    LOOP
        v_left := p_rows - coalesce(cardinality(v_lanes), 0);
        -- An instance that has taken its parent's name since was started later. A pending one that
        -- another client has started stays, too: its first turn reports that the id exists.
        v_page := ARRAY(
            (SELECT i.lane_id FROM @schema@.flow_instances i
            JOIN @schema@.flow_lanes l ON l.lane_id = i.lane_id
            WHERE i.parent = k.parent AND i.lane_id > k.after_lane
                AND least(l.started_at, i.created_at) <= k.deleted_at
            ORDER BY i.lane_id LIMIT v_left)
            UNION ALL
            (SELECT l.lane_id FROM @schema@.flow_lanes l
            WHERE (l.parent, l.lane_id) > (k.parent, k.after_lane) AND l.parent <= k.parent
                AND l.phase = 0 AND l.started_at <= k.deleted_at AND 1 = (
                    SELECT count(*) FROM (
                        SELECT FROM @schema@.flow_messages m
                        WHERE m.lane_id = l.lane_id AND m.starts LIMIT 2) x)
            ORDER BY l.parent, l.lane_id LIMIT v_left)
            ORDER BY lane_id LIMIT v_left);
        v_lanes := v_lanes || v_page;
        UPDATE @schema@.flow_leftovers x SET
            parent = CASE WHEN cardinality(v_lanes) >= p_rows THEN x.parent END,
            after_lane = coalesce(v_page[cardinality(v_page)], x.after_lane)
        WHERE x.leftover_id = k.leftover_id;
        EXIT WHEN cardinality(v_lanes) >= p_rows;
    END LOOP;
    o_found := cardinality(v_lanes);
    v_lanes := ARRAY(
        SELECT l.lane_id FROM unnest(@schema@.flow_lock(coalesce(v_lanes, '{}'), '{}')) AS l);
    -- By the time after the locks were taken: what these lanes started while this waited for their
    -- locks is deleted, too.
    SELECT x.* INTO o_count, o_messages, o_watched
    FROM @schema@.flow_unlink(v_lanes, p_deletion, @schema@.clock()) AS x;
END
$$;
