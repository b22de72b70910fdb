-- Whether an endpoint in strict order has an open delivery. Uses the index hook_deliveries_order.
SELECT 1 FROM hook_deliveries INDEXED BY hook_deliveries_order WHERE in_order = 1 AND endpoint_no = ?1 LIMIT 1
