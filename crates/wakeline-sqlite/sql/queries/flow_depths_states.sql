-- The number of instances in each state.
SELECT state, count(*) FROM instances GROUP BY state
UNION ALL
SELECT 'pending', count(*) FROM lanes l
WHERE l.started_at IS NOT NULL
  AND EXISTS (SELECT 1 FROM lane_messages m WHERE m.lane_id = l.lane_id AND m.starts = 1)
