-- How many live leases an endpoint has, counted no further than ?3.
-- Called by: lane::in_flight. Walks hook_deliveries_leased.
SELECT count(*) FROM (
    SELECT 1 FROM hook_deliveries INDEXED BY hook_deliveries_leased
    WHERE state = 'leased' AND endpoint_no = ?1 AND lease_until > ?2 LIMIT ?3
)
