-- When a live lease of an endpoint ends, with ?3 of them before it.
-- Called by: Lane::room_at. Walks hook_deliveries_leased.
SELECT lease_until FROM hook_deliveries INDEXED BY hook_deliveries_leased
WHERE state = 'leased' AND endpoint_no = ?1 AND lease_until > ?2 ORDER BY lease_until LIMIT 1 OFFSET ?3
