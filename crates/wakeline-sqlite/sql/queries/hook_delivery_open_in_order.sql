-- Whether an endpoint in strict order has a delivery that has not ended.
-- Called by: lane::has_others. Walks hook_deliveries_order.
SELECT 1 FROM hook_deliveries INDEXED BY hook_deliveries_order WHERE in_order = 1 AND endpoint_no = ?1 LIMIT 1
