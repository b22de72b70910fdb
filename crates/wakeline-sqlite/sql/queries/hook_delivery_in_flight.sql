-- The number of live leases of an endpoint, counted up to ?3. Uses the index
-- hook_deliveries_leased.
SELECT count(*) FROM (
    SELECT 1 FROM hook_deliveries INDEXED BY hook_deliveries_leased
    WHERE state = 'leased' AND endpoint_no = ?1 AND lease_until > ?2 LIMIT ?3
)
