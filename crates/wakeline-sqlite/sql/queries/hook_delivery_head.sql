-- For an endpoint in strict order: when its first open delivery is due, if that is waiting, and the
-- same time again if it is waiting for its first attempt. Uses the index hook_deliveries_order.
SELECT CASE WHEN state = 'waiting' THEN due_at END, CASE WHEN state = 'waiting' AND class IN (0, 3) THEN due_at END
FROM hook_deliveries INDEXED BY hook_deliveries_order
WHERE in_order = 1 AND endpoint_no = ?1 ORDER BY delivery_no LIMIT 1
