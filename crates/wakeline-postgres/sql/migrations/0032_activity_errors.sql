-- Activities that are tried again say why the last try failed.

ALTER TABLE @schema@.flow_work ADD COLUMN last_error text;
COMMENT ON COLUMN @schema@.flow_work.last_error IS 'why the last try failed; it will be tried again';

CREATE OR REPLACE VIEW @schema@.activities AS
SELECT w.work_id, l.instance, w.execution, w.activity, t.name AS tag, w.session,
    CASE WHEN w.state = 0 THEN 'available' WHEN w.lease_token IS NULL THEN 'delayed'
        ELSE 'leased' END AS state,
    w.due_at, w.attempts, n.name, w.last_error,
    CASE WHEN w.state = 1 AND w.lease_token IS NULL THEN w.due_at END AS next_try_at
FROM @schema@.flow_work w
JOIN @schema@.flow_lanes l USING (lane_id)
LEFT JOIN @schema@.flow_tags t USING (tag_id)
LEFT JOIN @schema@.flow_activity_names n USING (name_id);
COMMENT ON VIEW @schema@.activities IS
    'activities that wait for a worker or are leased by one, with the error of their last try; due_at is the end of lease or delay, or since when it is available';
