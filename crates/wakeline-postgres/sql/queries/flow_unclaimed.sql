-- Turns and activities that could be claimed for so long and were not; longest first. Of available
-- work due_at says since when; a node of an earlier release does not write it. Turns of ended
-- instances (phase 2) only clean up, and are left out.
-- Called by: FlowAdmin::unclaimed.
SELECT x.* FROM (SELECT @schema@.clock() - $1::bigint * interval '1 microsecond' AS at) AS until
CROSS JOIN LATERAL (
    (SELECT l.instance, c.name AS capability, NULL::bigint AS execution, NULL::bigint AS activity,
        NULL AS tag, NULL AS name, l.due_at AS since
    FROM @schema@.flow_capabilities c
    CROSS JOIN LATERAL (
        SELECT l.instance, l.due_at FROM @schema@.flow_lanes l
        WHERE l.capability_id = c.capability_id AND l.due_at <= until.at
            AND l.phase <> 2
        ORDER BY l.due_at LIMIT $2) l
    ORDER BY l.due_at LIMIT $2)
    UNION ALL
    (SELECT l.instance, NULL, w.execution, w.activity, t.name, n.name, w.due_at
    FROM @schema@.flow_work w
    JOIN @schema@.flow_lanes l ON l.lane_id = w.lane_id
    LEFT JOIN @schema@.flow_tags t ON t.tag_id = w.tag_id
    LEFT JOIN @schema@.flow_activity_names n ON n.name_id = w.name_id
    WHERE w.due_at <= until.at
    ORDER BY w.due_at, w.work_id LIMIT $2)
) x
ORDER BY x.since, x.instance COLLATE "C", x.execution NULLS FIRST, x.activity LIMIT $2
