-- When the first lease ends, possibly in the past, of an endpoint whose deliveries are pulled. Uses
-- the index hook_deliveries_leased.
SELECT lease_until FROM hook_deliveries INDEXED BY hook_deliveries_leased
WHERE state = 'leased' AND endpoint_no = ?1 ORDER BY lease_until LIMIT 1
