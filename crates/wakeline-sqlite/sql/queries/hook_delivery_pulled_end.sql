-- When the first lease of an endpoint ends; it may have passed.
-- Called by: claim::line_due, for endpoints that are pulled from. Walks hook_deliveries_leased.
SELECT lease_until FROM hook_deliveries INDEXED BY hook_deliveries_leased
WHERE state = 'leased' AND endpoint_no = ?1 ORDER BY lease_until LIMIT 1
