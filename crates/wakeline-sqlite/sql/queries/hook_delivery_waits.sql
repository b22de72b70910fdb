-- Whether a delivery waits for an endpoint.
-- Called by: lane::has_waiting. Walks hook_deliveries_waiting.
SELECT 1 FROM hook_deliveries INDEXED BY hook_deliveries_waiting
WHERE state = 'waiting' AND endpoint_no = ?1 LIMIT 1
