-- Whether a delivery is waiting for an endpoint, or will be as soon as its expired lease is ended.
-- Uses the indexes hook_deliveries_waiting and hook_deliveries_leased.
SELECT 1 FROM hook_deliveries INDEXED BY hook_deliveries_waiting WHERE state = 'waiting' AND endpoint_no = ?1
UNION ALL
SELECT 1 FROM hook_deliveries INDEXED BY hook_deliveries_leased
WHERE state = 'leased' AND endpoint_no = ?1 AND lease_until <= ?2
LIMIT 1
