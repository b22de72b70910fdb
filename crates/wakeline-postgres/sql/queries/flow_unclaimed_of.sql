-- The same as flow_unclaimed for some instances; of each at most $2, found among its oldest
-- thousand activities.
SELECT x.* FROM (SELECT @schema@.clock() - $1::bigint * interval '1 microsecond' AS at) AS until
CROSS JOIN unnest($3::text[]) AS i (instance)
JOIN @schema@.flow_lanes l ON l.instance = i.instance
CROSS JOIN LATERAL (
    (SELECT l.instance, c.name AS capability, NULL::bigint AS execution, NULL::bigint AS activity,
        NULL AS tag, NULL AS name, l.due_at AS since
    FROM @schema@.flow_capabilities c
    WHERE c.capability_id = l.capability_id AND l.due_at <= until.at AND l.phase <> 2)
    UNION ALL
    (SELECT l.instance, NULL, w.execution, w.activity, t.name, n.name, w.due_at
    FROM (
        SELECT w.execution, w.activity, w.tag_id, w.name_id, w.due_at FROM @schema@.flow_work w
        WHERE w.lane_id = l.lane_id ORDER BY w.execution, w.activity LIMIT 1000) w
    LEFT JOIN @schema@.flow_tags t ON t.tag_id = w.tag_id
    LEFT JOIN @schema@.flow_activity_names n ON n.name_id = w.name_id
    WHERE w.due_at <= until.at)
    ORDER BY since, execution NULLS FIRST, activity LIMIT $2
) x
ORDER BY x.since, x.instance COLLATE "C", x.execution NULLS FIRST, x.activity
