-- Lists ids under which messages wait and that were never started.

-- Only lanes of early messages stay in this index: a start says what the lane needs.
CREATE INDEX flow_lanes_early ON @schema@.flow_lanes (instance)
    WHERE phase = 0 AND capability_id IS NULL;

CREATE VIEW @schema@.mailboxes AS
SELECT l.instance, m.messages, m.oldest_at
FROM @schema@.flow_lanes l
CROSS JOIN LATERAL (
    SELECT count(*) AS messages, min(m.visible_at) AS oldest_at
    FROM @schema@.flow_messages m WHERE m.lane_id = l.lane_id) m
WHERE l.phase = 0 AND l.capability_id IS NULL AND m.messages > 0;
COMMENT ON VIEW @schema@.mailboxes IS
    'ids under which messages wait and that were never started, with how many, and when the first of them could be delivered';
