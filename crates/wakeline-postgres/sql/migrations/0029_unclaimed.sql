-- Shows what no worker claims. Of available work, due_at is now since when it could be claimed.

UPDATE @schema@.flow_work SET due_at = now() WHERE state = 0;

CREATE VIEW @schema@.unclaimed AS
SELECT x.instance, x.reason, x.since FROM (
    SELECT l.instance, format('no worker has claimed orchestration `%s`', c.name) AS reason,
        l.due_at AS since
    FROM @schema@.flow_lanes l
    JOIN @schema@.flow_capabilities c USING (capability_id)
    WHERE l.due_at IS NOT NULL AND l.phase <> 2
    UNION ALL
    SELECT l.instance, 'no worker has claimed ' || coalesce(format('activity `%s`', n.name),
        'an activity') || coalesce(format(' with tag `%s`', t.name), ''), w.due_at
    FROM @schema@.flow_work w
    JOIN @schema@.flow_lanes l USING (lane_id)
    LEFT JOIN @schema@.flow_tags t USING (tag_id)
    LEFT JOIN @schema@.flow_activity_names n USING (name_id)
) x
WHERE x.since <= @schema@.clock() - interval '30 seconds';
COMMENT ON VIEW @schema@.unclaimed IS
    'turns and activities that could be claimed for 30 seconds and were not: most often no worker has their code';

COMMENT ON VIEW @schema@.activities IS
    'activities that wait for a worker or are leased by one; due_at is the end of lease or delay, or since when it is available';
