-- Children of an instance that were started until ?3, in order, from a place on. A pending one stays that somebody else
-- has started, too: its first turn tells them that the id is taken.
-- Called by: delete::follow.
SELECT lane_id FROM (
    SELECT lane_id FROM (
        SELECT lane_id FROM instances INDEXED BY instances_parent
        WHERE parent = ?1 AND lane_id > ?2 AND coalesce(started_at, created_at) <= ?3
        ORDER BY lane_id LIMIT ?4)
    UNION ALL
    SELECT lane_id FROM (
        SELECT l.lane_id FROM lanes l INDEXED BY lanes_parent
        WHERE l.parent = ?1 AND l.lane_id > ?2 AND l.started_at <= ?3 AND (
            SELECT count(*) FROM (
                SELECT 1 FROM lane_messages m WHERE m.lane_id = l.lane_id AND m.starts = 1 LIMIT 2)) = 1
        ORDER BY l.lane_id LIMIT ?4))
ORDER BY lane_id LIMIT ?4
