-- When the first delivery of an endpoint in strict order that has not ended is due, if it waits; and when, if that is its
-- first attempt.
-- Called by: lane::first_waiting. Walks hook_deliveries_order.
SELECT CASE WHEN state = 'waiting' THEN due_at END, CASE WHEN state = 'waiting' AND class IN (0, 3) THEN due_at END
FROM hook_deliveries INDEXED BY hook_deliveries_order
WHERE in_order = 1 AND endpoint_no = ?1 ORDER BY delivery_no LIMIT 1
