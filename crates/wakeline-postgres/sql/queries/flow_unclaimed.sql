-- Returns turns and activities that have been claimable for a time without being claimed, longest
-- first. For available work due_at is the time since when; a node of an earlier release does not
-- write it. Turns of ended instances (phase 2) only clean up, and are left out. Work is found by
-- the indexes of claims: from one route to the next, and of each route the first $2 in order of
-- insertion, or of their time if they are delayed or leased. So it reads no more, however much work
-- is leased or delayed.
WITH RECURSIVE until AS (
    SELECT @schema@.clock() - $1::bigint * interval '1 microsecond' AS at
), ready (route) AS (
    (SELECT w.route FROM @schema@.flow_work w WHERE w.state = 0 AND w.session IS NULL ORDER BY w.route LIMIT 1)
    UNION ALL
    SELECT (
        SELECT w.route FROM @schema@.flow_work w WHERE w.state = 0 AND w.session IS NULL AND w.route > r.route
        ORDER BY w.route LIMIT 1)
    FROM ready r WHERE r.route IS NOT NULL
), ready_session (route) AS (
    (SELECT w.route FROM @schema@.flow_work w WHERE w.state = 0 AND w.session IS NOT NULL ORDER BY w.route LIMIT 1)
    UNION ALL
    SELECT (
        SELECT w.route FROM @schema@.flow_work w WHERE w.state = 0 AND w.session IS NOT NULL AND w.route > r.route
        ORDER BY w.route LIMIT 1)
    FROM ready_session r WHERE r.route IS NOT NULL
), later (route) AS (
    (SELECT w.route FROM @schema@.flow_work w WHERE w.state = 1 AND w.session IS NULL ORDER BY w.route LIMIT 1)
    UNION ALL
    SELECT (
        SELECT w.route FROM @schema@.flow_work w WHERE w.state = 1 AND w.session IS NULL AND w.route > r.route
        ORDER BY w.route LIMIT 1)
    FROM later r WHERE r.route IS NOT NULL
), later_session (route) AS (
    (SELECT w.route FROM @schema@.flow_work w WHERE w.state = 1 AND w.session IS NOT NULL ORDER BY w.route LIMIT 1)
    UNION ALL
    SELECT (
        SELECT w.route FROM @schema@.flow_work w WHERE w.state = 1 AND w.session IS NOT NULL AND w.route > r.route
        ORDER BY w.route LIMIT 1)
    FROM later_session r WHERE r.route IS NOT NULL
), work AS (
    SELECT w.* FROM ready r CROSS JOIN LATERAL (
        SELECT w.work_id, w.due_at FROM @schema@.flow_work w
        WHERE w.state = 0 AND w.session IS NULL AND w.route = r.route ORDER BY w.route, w.work_id LIMIT $2) w
    UNION ALL
    SELECT w.* FROM ready_session r CROSS JOIN LATERAL (
        SELECT w.work_id, w.due_at FROM @schema@.flow_work w
        WHERE w.state = 0 AND w.session IS NOT NULL AND w.route = r.route ORDER BY w.route, w.work_id LIMIT $2) w
    UNION ALL
    SELECT w.* FROM later r CROSS JOIN LATERAL (
        SELECT w.work_id, w.due_at FROM @schema@.flow_work w
        WHERE w.state = 1 AND w.session IS NULL AND w.route = r.route AND w.due_at <= (SELECT u.at FROM until u)
        ORDER BY w.route, w.due_at LIMIT $2) w
    UNION ALL
    SELECT w.* FROM later_session r CROSS JOIN LATERAL (
        SELECT w.work_id, w.due_at FROM @schema@.flow_work w
        WHERE w.state = 1 AND w.session IS NOT NULL AND w.route = r.route AND w.due_at <= (SELECT u.at FROM until u)
        ORDER BY w.route, w.due_at LIMIT $2) w
)
SELECT x.* FROM (
    (SELECT l.instance, c.name AS capability, NULL::bigint AS execution, NULL::bigint AS activity,
        NULL AS tag, NULL AS name, l.due_at AS since
    FROM @schema@.flow_capabilities c
    CROSS JOIN LATERAL (
        SELECT l.instance, l.due_at FROM @schema@.flow_lanes l
        WHERE l.capability_id = c.capability_id AND l.due_at <= (SELECT u.at FROM until u)
            AND l.phase <> 2
        ORDER BY l.due_at LIMIT $2) l
    ORDER BY l.due_at LIMIT $2)
    UNION ALL
    (SELECT l.instance, NULL, w.execution, w.activity, t.name, n.name, w.due_at
    FROM (
        SELECT f.work_id FROM work f WHERE f.due_at <= (SELECT u.at FROM until u)
        ORDER BY f.due_at, f.work_id LIMIT $2) f
    JOIN @schema@.flow_work w ON w.work_id = f.work_id
    JOIN @schema@.flow_lanes l ON l.lane_id = w.lane_id
    LEFT JOIN @schema@.flow_tags t ON t.tag_id = w.tag_id
    LEFT JOIN @schema@.flow_activity_names n ON n.name_id = w.name_id)
) x
ORDER BY x.since, x.instance COLLATE "C", x.execution NULLS FIRST, x.activity LIMIT $2
