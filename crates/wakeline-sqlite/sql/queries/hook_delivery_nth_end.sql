-- The end of the live lease of an endpoint that comes after ?3 others. Uses the index
-- hook_deliveries_leased.
SELECT lease_until FROM hook_deliveries INDEXED BY hook_deliveries_leased
WHERE state = 'leased' AND endpoint_no = ?1 AND lease_until > ?2 ORDER BY lease_until LIMIT 1 OFFSET ?3
