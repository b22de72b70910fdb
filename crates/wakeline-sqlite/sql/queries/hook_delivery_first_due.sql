-- When the first delivery of a class of an endpoint becomes due.
-- Called by: Lane::refresh. Walks hook_deliveries_waiting.
SELECT due_at FROM hook_deliveries INDEXED BY hook_deliveries_waiting
WHERE state = 'waiting' AND endpoint_no = ?1 AND class = ?2 ORDER BY due_at LIMIT 1
