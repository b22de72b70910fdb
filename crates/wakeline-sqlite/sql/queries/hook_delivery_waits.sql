-- Whether a delivery waits for an endpoint, or will as soon as its expired lease is looked at.
-- Called by: lane::has_others. Walks hook_deliveries_waiting, hook_deliveries_leased.
SELECT 1 FROM hook_deliveries INDEXED BY hook_deliveries_waiting WHERE state = 'waiting' AND endpoint_no = ?1
UNION ALL
SELECT 1 FROM hook_deliveries INDEXED BY hook_deliveries_leased
WHERE state = 'leased' AND endpoint_no = ?1 AND lease_until <= ?2
LIMIT 1
