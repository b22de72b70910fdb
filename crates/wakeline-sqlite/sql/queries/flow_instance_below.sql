-- Children of an instance that were started until ?3, in order, after a position. A pending child
-- that another parent has started as well stays: its first turn reports to the other parent that
-- the id is taken.
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
