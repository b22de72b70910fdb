-- The number of deliveries of an endpoint in each state, among those created since a time. Uses the
-- index over endpoint and message.
SELECT state, count(*) FROM hook_deliveries WHERE endpoint_no = ?1 AND created_at >= ?2 GROUP BY state
