-- How many deliveries of an endpoint, made from a time on, stand how.
-- Called by: read::stats. Walks the index over endpoint and message.
SELECT state, count(*) FROM hook_deliveries WHERE endpoint_no = ?1 AND created_at >= ?2 GROUP BY state
